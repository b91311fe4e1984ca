#include "common/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"
#include "common/json/json_walk.h"

namespace paceline {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // The format's own limit.
constexpr size_t kMostAligned = 64;
constexpr char kMetadata[] = "__metadata__";

struct Dtype {
  const char* name;
  int64_t bytes;
};
constexpr Dtype kDtypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
                             {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
                             {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

absl::Status Damaged(absl::string_view where, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(where, ": ", what));
}

// The greatest power of two, up to a cache line, to which the next tensor is aligned after one of
// `bytes` bytes.
size_t AlignmentKept(size_t bytes) {
  size_t alignment = kMostAligned;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

// Computes the bytes of a tensor; false when the dtype is unknown or they exceed 63 bits.
bool SizeOf(absl::string_view dtype, const std::vector<int64_t>& shape, int64_t* bytes) {
  *bytes = SafetensorsElementBytes(dtype);
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(*bytes, extent, bytes)) return false;
  }
  return SafetensorsElementBytes(dtype) > 0;
}

// Reads the entries of a header. Ignores keys that the format does not have.
class HeaderVisitor : public JsonVisitor {
 public:
  // `data`: the bytes after the header.
  explicit HeaderVisitor(absl::string_view data) : data_(data) {}

  // The entries in the header's order.
  std::vector<Safetensor> Take() { return std::move(tensors_); }

  absl::Status Begin(const JsonPath& path, JsonContainer container) override {
    if (IsMetadata(path)) return absl::OkStatus();
    const bool object = container == JsonContainer::kObject;
    if (path.size() < 2 && !object) return Unexpected(path);
    if (path.size() == 1) {
      tensors_.emplace_back().name = path[0].key;
      offsets_.clear();
      known_ = 0;
    }
    if (path.size() == 2 && IsNumbers(path[1])) {
      if (object) return Unexpected(path);
      ++known_;
    }
    return path.size() == 3 && IsNumbers(path[1]) ? Unexpected(path) : absl::OkStatus();
  }

  absl::Status Scalar(const JsonPath& path, const JsonScalar& value) override {
    if (IsMetadata(path)) return absl::OkStatus();
    if (path.size() < 2) return Unexpected(path);
    if (path.size() == 2) {
      if (IsNumbers(path[1])) return Unexpected(path);
      if (path[1].key != "dtype") return absl::OkStatus();
      if (!std::holds_alternative<std::string>(value)) return Unexpected(path);
      tensors_.back().dtype = std::get<std::string>(value);
      ++known_;
    }
    if (path.size() == 3 && IsNumbers(path[1])) return AddNumber(path, value);
    return absl::OkStatus();
  }

  absl::Status End(const JsonPath& path, JsonContainer) override {
    return IsMetadata(path) || path.size() != 1 ? absl::OkStatus() : EndTensor(tensors_.back());
  }

 private:
  static bool IsMetadata(const JsonPath& path) { return !path.empty() && path[0].key == kMetadata; }

  static bool IsNumbers(const JsonStep& step) {
    return step.key == "shape" || step.key == "data_offsets";
  }

  static absl::Status Unexpected(const JsonPath& path) {
    if (path.empty()) return Damaged("offset 8", "the header is not a JSON object");
    return Damaged(absl::StrCat("tensor \"", path[0].key, "\""),
                   "needs dtype, shape and data_offsets: text and lists of numbers");
  }

  absl::Status AddNumber(const JsonPath& path, const JsonScalar& value) {
    const auto* number = std::get_if<uint64_t>(&value);
    if (number == nullptr || *number > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Damaged(absl::StrCat("tensor \"", path[0].key, "\""),
                     absl::StrCat("impossible ", path[1].key));
    }
    std::vector<int64_t>& numbers = path[1].key == "shape" ? tensors_.back().shape : offsets_;
    numbers.push_back(static_cast<int64_t>(*number));
    return absl::OkStatus();
  }

  absl::Status EndTensor(Safetensor& tensor) const {
    const std::string where = absl::StrCat("tensor \"", tensor.name, "\"");
    if (known_ != 3) return Damaged(where, "needs dtype, shape and data_offsets");
    if (SafetensorsElementBytes(tensor.dtype) == 0) {
      return Damaged(where, absl::StrCat("unknown dtype \"", tensor.dtype, "\""));
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1] ||
        static_cast<uint64_t>(offsets_[1]) > data_.size()) {
      return Damaged(where, absl::StrCat("its data_offsets are not within the ", data_.size(),
                                         " bytes of data"));
    }
    int64_t bytes;
    if (!SizeOf(tensor.dtype, tensor.shape, &bytes) || bytes != offsets_[1] - offsets_[0]) {
      return Damaged(where, "its data_offsets do not fit its dtype and shape");
    }
    tensor.bytes = data_.substr(static_cast<size_t>(offsets_[0]), static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

  const absl::string_view data_;
  std::vector<Safetensor> tensors_;
  // Of the open tensor.
  std::vector<int64_t> offsets_;
  int known_ = 0;  // Number of known keys so far.
};

}  // namespace

int64_t SafetensorsElementBytes(absl::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (dtype == known.name) return known.bytes;
  }
  return 0;
}

absl::StatusOr<std::vector<Safetensor>> ParseSafetensors(absl::string_view contents) {
  uint64_t header_bytes = 0;
  if (contents.size() < kLengthBytes) return Damaged("offset 0", "truncated before the header");
  std::memcpy(&header_bytes, contents.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > contents.size() - kLengthBytes) {
    return Damaged("offset 0", absl::StrCat("not a safetensors file, or truncated: a header of ",
                                            header_bytes, " bytes in a file of ", contents.size()));
  }
  const absl::string_view header = contents.substr(kLengthBytes, header_bytes);
  const absl::string_view data = contents.substr(kLengthBytes + header_bytes);
  if (header.empty() || header[0] != '{') {
    return Damaged("offset 8", "the header is not a JSON object");
  }
  HeaderVisitor visitor(data);
  if (absl::Status status = WalkJson(header, visitor); !status.ok()) {
    return Damaged("header", status.message());
  }
  std::vector<Safetensor> tensors = visitor.Take();
  std::sort(tensors.begin(), tensors.end(), [](const Safetensor& a, const Safetensor& b) {
    return a.bytes.data() != b.bytes.data() ? a.bytes.data() < b.bytes.data()
                                            : a.bytes.size() < b.bytes.size();
  });
  const char* end = data.data();
  for (const Safetensor& tensor : tensors) {
    if (tensor.bytes.data() != end) {
      return Damaged(absl::StrCat("tensor \"", tensor.name, "\""),
                     "its bytes overlap others or leave a gap before them");
    }
    end += tensor.bytes.size();
  }
  if (end != data.data() + data.size()) {
    return Damaged(absl::StrCat("offset ", end - contents.data()), "bytes that no tensor owns");
  }
  return tensors;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path, MappedFile::Access::kRead));
  absl::StatusOr<std::vector<Safetensor>> tensors =
      ParseSafetensors({static_cast<const char*>(file.data()), file.size()});
  if (!tensors.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", tensors.status().message()));
  }
  return SafetensorsFile(std::move(file), *std::move(tensors));
}

absl::StatusOr<std::string> SafetensorsHeader(const std::vector<Safetensor>& tensors,
                                              size_t alignment,
                                              const std::map<std::string, std::string>& metadata) {
  std::string header = absl::StrCat("{\"", kMetadata, "\":{\"format\":\"pt\"");
  for (const auto& [key, text] : metadata) {
    absl::StrAppend(&header, ",", JsonQuoted(key), ":", JsonQuoted(text));
  }
  header += '}';
  absl::flat_hash_set<absl::string_view> names = {kMetadata};
  int64_t offset = 0;
  for (const Safetensor& tensor : tensors) {
    int64_t bytes;
    int64_t end = 0;
    if (!IsUtf8(tensor.name) || !names.insert(tensor.name).second ||
        !SizeOf(tensor.dtype, tensor.shape, &bytes) ||
        __builtin_add_overflow(offset, bytes, &end)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", JsonQuoted(tensor.name), ": name used twice or not UTF-8, or impossible as ",
          tensor.dtype, " of its shape"));
    }
    absl::StrAppend(&header, ",", JsonQuoted(tensor.name), ":{\"dtype\":\"", tensor.dtype,
                    "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[",
                    offset, ",", end, "]}");
    offset = end;
  }
  header += '}';
  const size_t beyond = (kLengthBytes + header.size()) % alignment;
  if (beyond != 0) header.append(alignment - beyond, ' ');
  const uint64_t header_bytes = header.size();
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&header_bytes), kLengthBytes),
                      header);
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<Safetensor>& tensors) {
  std::vector<Safetensor> ordered = tensors;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Safetensor& a, const Safetensor& b) {
    return AlignmentKept(a.bytes.size()) > AlignmentKept(b.bytes.size());
  });
  PACELINE_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(ordered, kMostAligned));
  std::vector<absl::string_view> pieces = {header};
  for (const Safetensor& tensor : ordered) {
    int64_t bytes;
    if (!SizeOf(tensor.dtype, tensor.shape, &bytes) ||
        static_cast<uint64_t>(bytes) != tensor.bytes.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", tensor.name, "\": bytes that do not fit ", tensor.dtype, " and its shape"));
    }
    pieces.push_back(tensor.bytes);
  }
  return WriteFileAtomically(path, pieces);
}

}  // namespace paceline
