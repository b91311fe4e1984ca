#include "common/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are little-endian");

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // The format's own limit.
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

// Bytes of a tensor of this dtype and shape; false when they do not fit into 63 bits.
bool SizeOf(absl::string_view dtype, const std::vector<int64_t>& shape, int64_t* bytes) {
  *bytes = SafetensorsElementBytes(dtype);
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(*bytes, extent, bytes)) return false;
  }
  return true;
}

// A JSON array of numbers that are not negative.
bool ReadNumbers(const Json& json, std::vector<int64_t>* numbers) {
  if (!json.is_array()) return false;
  for (const Json& number : json) {
    if (!number.is_number_unsigned() ||
        number.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return false;
    }
    numbers->push_back(number.get<int64_t>());
  }
  return true;
}

absl::StatusOr<Safetensor> ReadEntry(const std::string& name, const Json& json,
                                     absl::string_view data) {
  const std::string where = absl::StrCat("tensor \"", name, "\"");
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string() ||
      !json.contains("shape") || !json.contains("data_offsets")) {
    return Damaged(where, "needs dtype, shape and data_offsets");
  }
  Safetensor tensor;
  tensor.name = name;
  tensor.dtype = json["dtype"].get<std::string>();
  if (SafetensorsElementBytes(tensor.dtype) == 0) {
    return Damaged(where, absl::StrCat("unknown dtype \"", tensor.dtype, "\""));
  }
  std::vector<int64_t> offsets;
  if (!ReadNumbers(json["shape"], &tensor.shape)) return Damaged(where, "impossible shape");
  if (!ReadNumbers(json["data_offsets"], &offsets) || offsets.size() != 2 ||
      offsets[0] > offsets[1] || static_cast<uint64_t>(offsets[1]) > data.size()) {
    return Damaged(where, absl::StrCat("data_offsets ", json["data_offsets"].dump(),
                                       " are not within the ", data.size(), " bytes of data"));
  }
  int64_t bytes;
  if (!SizeOf(tensor.dtype, tensor.shape, &bytes) || bytes != offsets[1] - offsets[0]) {
    return Damaged(where, "its data_offsets do not fit its dtype and shape");
  }
  tensor.bytes = data.substr(static_cast<size_t>(offsets[0]), static_cast<size_t>(bytes));
  return tensor;
}

// The header as JSON; null when it is none or a name comes twice in one object.
Json ParseHeader(absl::string_view header) {
  std::vector<std::set<std::string>> names;
  bool twice = false;
  const Json::parser_callback_t check = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key) {
      twice |= !names.back().insert(parsed.get<std::string>()).second;
    }
    return true;
  };
  Json json = Json::parse(header.begin(), header.end(), check, /*allow_exceptions=*/false);
  return twice || !json.is_object() ? Json() : json;
}

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
  const Json json = header.empty() || header[0] != '{' ? Json() : ParseHeader(header);
  if (json.is_null()) return Damaged("offset 8", "the header is not a JSON object of unique names");

  std::vector<Safetensor> tensors;
  for (const auto& [name, entry] : json.items()) {
    if (name == kMetadata) continue;
    PACELINE_ASSIGN_OR_RETURN(Safetensor tensor, ReadEntry(name, entry, data));
    tensors.push_back(std::move(tensor));
  }
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
                                              size_t alignment) {
  Json json = Json::object();
  json[kMetadata]["format"] = "pt";
  int64_t offset = 0;
  for (const Safetensor& tensor : tensors) {
    int64_t bytes;
    int64_t end;
    if (SafetensorsElementBytes(tensor.dtype) == 0 || json.contains(tensor.name) ||
        !SizeOf(tensor.dtype, tensor.shape, &bytes) || bytes < 0 ||
        __builtin_add_overflow(offset, bytes, &end)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name,
                                                     "\": name used twice, or impossible as ",
                                                     tensor.dtype, " of its shape"));
    }
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header = json.dump();
  const size_t beyond = (kLengthBytes + header.size()) % alignment;
  if (beyond != 0) header.append(alignment - beyond, ' ');
  const uint64_t header_bytes = header.size();
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&header_bytes), kLengthBytes),
                      header);
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<Safetensor>& tensors) {
  PACELINE_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(tensors, /*alignment=*/8));
  std::vector<absl::string_view> pieces = {header};
  for (const Safetensor& tensor : tensors) {
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
