#include "worker/trainer/slipstream/testing/stream_races.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr size_t kMostRaces = 20;

thread_local StreamRaces* races_of_thread = nullptr;
thread_local int stream_of_thread = 0;

void ForTensors(const c10::IValue& value, const std::function<void(const at::Tensor&)>& use) {
  const auto use_if_any = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage() && tensor.numel() > 0) use(tensor);
  };
  if (value.isTensor()) return use_if_any(value.toTensor());
  if (!value.isList()) return;
  for (const c10::IValue& one : value.toListRef()) {
    if (one.isTensor()) use_if_any(one.toTensor());
  }
}

// Inputs of a running operator.
struct Inputs : public at::ObserverContext {
  std::vector<const void*> memory;
};

// These operators only look at sizes and types.
bool LooksAtNoValues(const std::string& name) {
  return absl::EndsWith(name, "_like") || absl::StartsWith(name, "aten::new_");
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& operation) {
  StreamRaces* const races = races_of_thread;
  const std::optional<c10::FunctionSchema> schema = operation.operator_schema();
  if (races == nullptr || !schema.has_value()) return nullptr;
  const auto inputs = operation.inputs();
  const auto alias = [&](size_t i) { return schema->arguments()[i].alias_info(); };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (alias(i) != nullptr && !alias(i)->isWrite()) return nullptr;  // It makes a view.
  }
  auto context = std::make_unique<Inputs>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    ForTensors(inputs[i], [&](const at::Tensor& tensor) {
      context->memory.push_back(tensor.storage().unsafeGetStorageImpl());
      if (LooksAtNoValues(schema->name())) return;
      races->Use(tensor.storage(), /*writes=*/alias(i) != nullptr, schema->name());
    });
  }
  return context;
}

void End(const at::RecordFunction& operation, at::ObserverContext* context) {
  if (races_of_thread == nullptr || context == nullptr) return;
  const std::vector<const void*>& inputs = static_cast<Inputs*>(context)->memory;
  for (const c10::IValue& output : operation.outputs()) {
    ForTensors(output, [&](const at::Tensor& tensor) {
      const void* const memory = tensor.storage().unsafeGetStorageImpl();
      if (std::find(inputs.begin(), inputs.end(), memory) != inputs.end()) return;
      races_of_thread->Use(tensor.storage(), /*writes=*/true, operation.name());
    });
  }
}

void Observe() {
  static const at::CallbackHandle handle =
      at::addGlobalCallback(at::RecordFunctionCallback(Begin, End)
                                .needsInputs(true)
                                .needsOutputs(true)
                                .scopes({at::RecordScope::FUNCTION}));
  (void)handle;
}

}  // namespace

StreamRaces::Entered::Entered(StreamRaces& races) {
  Observe();
  races_of_thread = &races;
  stream_of_thread = 0;
}

StreamRaces::Entered::~Entered() { races_of_thread = nullptr; }

std::unique_ptr<DeviceStreams::Aside> StreamRaces::GoAside() {
  class Other : public Aside {
   public:
    explicit Other(StreamRaces* races)
        : races_before_(std::exchange(races_of_thread, races)),
          stream_before_(std::exchange(stream_of_thread, 1)) {}
    ~Other() override {
      races_of_thread = races_before_;
      stream_of_thread = stream_before_;
    }

   private:
    StreamRaces* const races_before_;
    const int stream_before_;
  };
  return std::make_unique<Other>(this);
}

void StreamRaces::Record(Event event) {
  const absl::MutexLock lock(&mu_);
  events_[static_cast<size_t>(event)] = now_[static_cast<size_t>(stream_of_thread)];
}

void StreamRaces::StartAfter(Event event) {
  const absl::MutexLock lock(&mu_);
  Clock& now = now_[static_cast<size_t>(stream_of_thread)];
  const Clock& then = events_[static_cast<size_t>(event)];
  for (size_t i = 0; i < kStreams; ++i) now[i] = std::max(now[i], then[i]);
}

void StreamRaces::Wait(Event event) { StartAfter(event); }

void StreamRaces::Use(const c10::Storage& storage, bool writes, const std::string& by) {
  const auto own = static_cast<size_t>(stream_of_thread);
  const size_t other = 1 - own;
  const absl::MutexLock lock(&mu_);
  Clock& now = now_[own];
  ++now[own];
  Memory& memory = memory_[storage.unsafeGetStorageImpl()];
  memory.kept = storage;
  const int64_t before =
      writes ? std::max(memory.written[other], memory.read[other]) : memory.written[other];
  if (before > now[other]) {
    if (races_.size() < kMostRaces) {
      races_.push_back(absl::StrCat(by, writes ? " writes " : " reads ", storage.nbytes(),
                                    " bytes in stream ", own, " that the other one uses"));
    }
  } else if (before > 0) {
    ++in_order_;
  }
  (writes ? memory.written : memory.read)[own] = now[own];
}

std::vector<std::string> StreamRaces::races() const {
  const absl::MutexLock lock(&mu_);
  return races_;
}

int64_t StreamRaces::in_order() const {
  const absl::MutexLock lock(&mu_);
  return in_order_;
}

}  // namespace paceline
