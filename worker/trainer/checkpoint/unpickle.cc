#include "worker/trainer/checkpoint/unpickle.h"

#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

using Kind = PickleValue::Kind;
using ValuePtr = std::shared_ptr<PickleValue>;

ValuePtr Make(Kind kind) {
  auto value = std::make_shared<PickleValue>();
  value->kind = kind;
  return value;
}

ValuePtr Number(int64_t number) {
  ValuePtr value = Make(Kind::kNumber);
  value->number = number;
  return value;
}

ValuePtr Text(Kind kind, std::string text) {
  ValuePtr value = Make(kind);
  value->text = std::move(text);
  return value;
}

// Executes the instructions in order on a stack of values.
class Unpickler {
 public:
  explicit Unpickler(absl::string_view pickle) : rest_(pickle), size_(pickle.size()) {}

  absl::StatusOr<Unpickled> Run() {
    const absl::Status status = Execute();
    std::vector<ValuePtr> memo;
    for (auto& [index, value] : memo_) memo.push_back(std::move(value));
    Unpickled all(stack_.empty() ? Make(Kind::kNone) : stack_[0], std::move(memo));
    if (!status.ok()) return status;
    return all;
  }

 private:
  absl::Status Execute() {
    while (!stopped_) {
      const size_t offset = size_ - rest_.size();
      uint8_t instruction = 0;
      if (!Read(&instruction) || !Execute(instruction)) {
        return absl::DataLossError(absl::StrFormat(
            "offset %d of its pickle: torch.save does not write this (instruction 0x%02x)", offset,
            instruction));
      }
    }
    if (stack_.size() != 1) return absl::DataLossError("its pickle holds more than one value");
    return absl::OkStatus();
  }

  // These return false when the pickle is not one that torch.save writes.
  bool Execute(uint8_t instruction);
  bool ExecuteRare(uint8_t instruction);
  bool Reduce();
  bool MakeObject(size_t arguments);
  bool Fill(size_t first);
  bool MakePersistent();
  static bool RebuildTensor(const std::vector<ValuePtr>& arguments, PickledTensor* tensor);

  template <typename T>
  bool Read(T* value) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(value, rest_.data(), sizeof(T));
    rest_.remove_prefix(sizeof(T));
    return true;
  }

  bool ReadText(size_t size, std::string* text) {
    if (rest_.size() < size) return false;
    *text = std::string(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }

  bool ReadLine(std::string* line) {
    const size_t end = rest_.find('\n');
    if (end == absl::string_view::npos || !ReadText(end, line)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool ReadProtocol() {
    uint8_t protocol = 0;
    return Read(&protocol) && protocol >= 2 && protocol <= 5;
  }

  template <typename T>
  bool PushNumber() {
    T number{};
    if (!Read(&number)) return false;
    return Push(Number(static_cast<int64_t>(number)));
  }

  template <typename Size>
  bool PushLong() {
    Size size = 0;
    std::string bytes;
    if (!Read(&size) || !ReadText(size, &bytes)) return false;
    if (size > sizeof(int64_t)) return Push(Number(0));
    const bool negative = size > 0 && (bytes.back() & 0x80) != 0;
    int64_t number = negative ? -1 : 0;
    std::memcpy(&number, bytes.data(), size);
    return Push(Number(number));
  }

  bool PushFloat() {
    uint64_t bits = 0;
    return Read(&bits) && Push(Number(0));
  }

  template <typename Size>
  bool PushText() {
    Size size = 0;
    std::string text;
    if (!Read(&size) || !ReadText(static_cast<size_t>(size), &text)) return false;
    return Push(Text(Kind::kText, std::move(text)));
  }

  bool PushGlobal() {
    std::string module;
    std::string name;
    if (!ReadLine(&module) || !ReadLine(&name)) return false;
    return Push(Text(Kind::kGlobal, absl::StrCat(module, " ", name)));
  }

  bool PushStackGlobal() {
    if (stack_.size() < 2) return false;
    const ValuePtr name = Pop();
    const ValuePtr module = Pop();
    if (name->kind != Kind::kText || module->kind != Kind::kText) return false;
    return Push(Text(Kind::kGlobal, absl::StrCat(module->text, " ", name->text)));
  }

  bool Drop(size_t count) {
    if (stack_.size() < count) return false;
    stack_.resize(stack_.size() - count);
    return true;
  }

  // Drops everything from the topmost mark on: contents of lists and sets are not kept.
  bool DropToMark() {
    size_t mark = 0;
    if (!FindMark(&mark)) return false;
    stack_.resize(mark);
    return true;
  }

  bool Push(ValuePtr value) {
    stack_.push_back(std::move(value));
    return true;
  }

  ValuePtr Pop() {
    ValuePtr value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }

  template <typename Index>
  bool Remember() {
    Index index{};
    return Read(&index) && RememberAs(index);
  }

  bool RememberAs(uint32_t index) {
    if (stack_.empty()) return false;
    memo_[index] = stack_.back();
    return true;
  }

  template <typename Index>
  bool Recall() {
    Index index{};
    if (!Read(&index)) return false;
    const auto found = memo_.find(index);
    return found != memo_.end() && Push(found->second);
  }

  // Replaces the values from position `first` on by a tuple of them.
  bool PushTuple(size_t first) {
    ValuePtr tuple = Make(Kind::kTuple);
    tuple->items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first);
    return Push(std::move(tuple));
  }

  bool PushTupleOf(size_t count) {
    return stack_.size() >= count && PushTuple(stack_.size() - count);
  }

  // Finds the position of the topmost mark.
  bool FindMark(size_t* mark) const {
    for (*mark = stack_.size(); *mark > 0;) {
      if (stack_[--*mark]->kind == Kind::kMark) return true;
    }
    return false;
  }

  // Removes the topmost mark; what lay above it begins at `position` now.
  bool RemoveMark(size_t* position) {
    if (!FindMark(position)) return false;
    stack_.erase(stack_.begin() + static_cast<std::ptrdiff_t>(*position));
    return true;
  }

  absl::string_view rest_;
  const size_t size_;
  bool stopped_ = false;
  std::vector<ValuePtr> stack_;
  std::map<uint32_t, ValuePtr> memo_;
};

// The names are those of Python's pickletools.
bool Unpickler::Execute(uint8_t instruction) {
  size_t mark = 0;
  switch (instruction) {
    case 0x80:  // PROTO
      return ReadProtocol();
    case '(':  // MARK
      return Push(Make(Kind::kMark));
    case 'N':  // NONE
      return Push(Make(Kind::kNone));
    case 0x88:  // NEWTRUE
      return Push(Number(1));
    case 0x89:  // NEWFALSE
      return Push(Number(0));
    case 'J':  // BININT
      return PushNumber<int32_t>();
    case 'K':  // BININT1
      return PushNumber<uint8_t>();
    case 'M':  // BININT2
      return PushNumber<uint16_t>();
    case 0x8a:  // LONG1
      return PushLong<uint8_t>();
    case 'X':  // BINUNICODE
      return PushText<uint32_t>();
    case 'c':  // GLOBAL
      return PushGlobal();
    case '}':  // EMPTY_DICT
      return Push(Make(Kind::kDict));
    case ')':  // EMPTY_TUPLE
      return Push(Make(Kind::kTuple));
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      return PushTupleOf(instruction - 0x84u);
    case 't':  // TUPLE
      return RemoveMark(&mark) && PushTuple(mark);
    case 's':  // SETITEM
      return stack_.size() >= 3 && Fill(stack_.size() - 2);
    case 'u':  // SETITEMS
      return RemoveMark(&mark) && Fill(mark);
    case 'q':  // BINPUT
      return Remember<uint8_t>();
    case 'r':  // LONG_BINPUT
      return Remember<uint32_t>();
    case 'h':  // BINGET
      return Recall<uint8_t>();
    case 'j':  // LONG_BINGET
      return Recall<uint32_t>();
    case 'Q':  // BINPERSID
      return MakePersistent();
    case 'R':  // REDUCE
      return Reduce();
    case 'b':  // BUILD: attributes (a dict's _metadata), irrelevant to the tensors.
      return stack_.size() >= 2 && Drop(1);
    case '.':  // STOP
      stopped_ = true;
      return true;
    default:
      return ExecuteRare(instruction);
  }
}

// Instructions of newer protocols, and those only needed by values beside a state dict.
bool Unpickler::ExecuteRare(uint8_t instruction) {
  uint64_t frame = 0;
  switch (instruction) {
    case 'G':  // BINFLOAT
      return PushFloat();
    case 0x8b:  // LONG4
      return PushLong<uint32_t>();
    case 0x8c:  // SHORT_BINUNICODE
    case 'C':   // SHORT_BINBYTES
      return PushText<uint8_t>();
    case 'B':  // BINBYTES
      return PushText<uint32_t>();
    case 0x8d:  // BINUNICODE8
    case 0x8e:  // BINBYTES8
      return PushText<uint64_t>();
    case 0x93:  // STACK_GLOBAL
      return PushStackGlobal();
    case 0x94:  // MEMOIZE
      return RememberAs(static_cast<uint32_t>(memo_.size()));
    case 0x95:  // FRAME: a length, not needed since all bytes are there.
      return Read(&frame);
    case ']':   // EMPTY_LIST
    case 0x8f:  // EMPTY_SET
      return Push(Make(Kind::kList));
    case 'a':  // APPEND
      return stack_.size() >= 2 && Drop(1);
    case 'e':   // APPENDS
    case 0x90:  // ADDITEMS
      return DropToMark();
    case 'l':   // LIST
    case 0x91:  // FROZENSET
      return DropToMark() && Push(Make(Kind::kList));
    case '0':  // POP
      return Drop(1);
    case '1':  // POP_MARK
      return DropToMark();
    case 0x81:  // NEWOBJ
      return MakeObject(1);
    case 0x92:  // NEWOBJ_EX
      return MakeObject(2);
    default:
      return false;
  }
}

// Pops the arguments, and the class below them, and pushes an object.
bool Unpickler::MakeObject(size_t arguments) {
  if (!Drop(arguments) || stack_.empty()) return false;
  const ValuePtr type = Pop();
  return type->kind == Kind::kGlobal && Push(Text(Kind::kOther, type->text));
}

// Moves the values from position `first` on into the dict below them.
bool Unpickler::Fill(size_t first) {
  if (first == 0 || (stack_.size() - first) % 2 != 0) return false;
  PickleValue& dict = *stack_[first - 1];
  if (dict.kind == Kind::kOther) {  // A dict of another class.
    stack_.resize(first);
    return true;
  }
  if (dict.kind != Kind::kDict) return false;
  std::vector<ValuePtr>& items = dict.items;
  items.insert(items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
  stack_.resize(first);
  return true;
}

// Arguments: ("storage", type, key, device, elements)
bool Unpickler::MakePersistent() {
  if (stack_.empty() || stack_.back()->kind != Kind::kTuple) return false;
  ValuePtr storage = Make(Kind::kStorage);
  storage->items = Pop()->items;
  const std::vector<ValuePtr>& items = storage->items;
  return items.size() == 5 && items[0]->kind == Kind::kText && items[0]->text == "storage" &&
         items[1]->kind == Kind::kGlobal && items[2]->kind == Kind::kText &&
         items[4]->kind == Kind::kNumber && Push(std::move(storage));
}

// Calls a function with a tuple of arguments.
bool Unpickler::Reduce() {
  if (stack_.size() < 2) return false;
  const ValuePtr arguments = Pop();
  const ValuePtr function = Pop();
  if (arguments->kind != Kind::kTuple || function->kind != Kind::kGlobal) return false;
  if (function->text == "collections OrderedDict" && arguments->items.empty()) {
    return Push(Make(Kind::kDict));
  }
  if (function->text == "torch._utils _rebuild_tensor_v2" ||
      function->text == "torch._utils _rebuild_tensor_v3") {
    ValuePtr tensor = Make(Kind::kTensor);
    return RebuildTensor(arguments->items, &tensor->tensor) && Push(std::move(tensor));
  }
  if (function->text == "torch._utils _rebuild_parameter") {
    return !arguments->items.empty() && Push(arguments->items[0]);
  }
  return Push(Text(Kind::kOther, function->text));
}

// Arguments: (storage, offset, shape, strides, requires_grad, hooks, ...). If the storage has no
// type, the dtype follows.
bool Unpickler::RebuildTensor(const std::vector<ValuePtr>& arguments, PickledTensor* tensor) {
  if (arguments.size() < 4 || arguments[0]->kind != Kind::kStorage ||
      arguments[1]->kind != Kind::kNumber || arguments[2]->kind != Kind::kTuple ||
      arguments[3]->kind != Kind::kTuple) {
    return false;
  }
  const std::vector<ValuePtr>& storage = arguments[0]->items;
  absl::string_view type = storage[1]->text;
  if (arguments.size() > 6 && arguments[6]->kind == Kind::kGlobal) {
    type = arguments[6]->text;
  }
  if (!absl::ConsumePrefix(&type, "torch ")) return false;
  tensor->storage_type = std::string(type);
  tensor->storage_key = storage[2]->text;
  tensor->storage_elements = storage[4]->number;
  tensor->offset = arguments[1]->number;
  for (const ValuePtr& extent : arguments[2]->items) tensor->shape.push_back(extent->number);
  for (const ValuePtr& stride : arguments[3]->items) tensor->strides.push_back(stride->number);
  // The view must lie within the storage.
  if (tensor->shape.size() != tensor->strides.size() || tensor->offset < 0) return false;
  int64_t last = tensor->offset;
  bool empty = false;
  for (size_t i = 0; i < tensor->shape.size(); ++i) {
    const int64_t extent = tensor->shape[i];
    const int64_t stride = tensor->strides[i];
    int64_t reach;
    if (extent < 0 || stride < 0) return false;
    empty |= extent == 0;
    if (__builtin_mul_overflow(extent - 1, stride, &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return false;
    }
  }
  return empty || last < tensor->storage_elements;
}

}  // namespace

Unpickled::Unpickled(std::shared_ptr<PickleValue> top,
                     std::vector<std::shared_ptr<PickleValue>> memo)
    : top_(std::move(top)), memo_(std::move(memo)) {}

Unpickled::~Unpickled() {
  for (const ValuePtr& value : memo_) value->items.clear();
}

absl::StatusOr<Unpickled> Unpickle(absl::string_view pickle) { return Unpickler(pickle).Run(); }

}  // namespace paceline
