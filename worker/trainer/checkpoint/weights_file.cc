#include "worker/trainer/checkpoint/weights_file.h"

#include <ATen/ops/from_blob.h>
#include <caffe2/serialize/inline_container.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "worker/trainer/checkpoint/dtype.h"
#include "worker/trainer/checkpoint/state_dict_pickle.h"
#include "worker/trainer/checkpoint/weights_directory.h"

namespace paceline {
namespace {

std::optional<at::ScalarType> TypeOfStorage(const std::string& storage) {
  constexpr std::pair<const char*, at::ScalarType> kStorages[] = {
      {"DoubleStorage", at::kDouble},     {"FloatStorage", at::kFloat}, {"HalfStorage", at::kHalf},
      {"BFloat16Storage", at::kBFloat16}, {"LongStorage", at::kLong},   {"IntStorage", at::kInt},
      {"ShortStorage", at::kShort},       {"CharStorage", at::kChar},   {"ByteStorage", at::kByte},
      {"BoolStorage", at::kBool}};
  for (const auto& [name, type] : kStorages) {
    if (storage == name) return type;
  }
  return std::nullopt;
}

absl::Status AddSafetensors(const std::string& path, FoundWeights* found) {
  PACELINE_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(path));
  found->maps.push_back(std::make_shared<const SafetensorsFile>(std::move(opened)));
  for (const Safetensor& entry : found->maps.back()->tensors()) {
    FoundTensor& tensor = found->tensors[entry.name];
    tensor.shape = entry.shape;
    tensor.type = entry.dtype;
    tensor.torch_type = TypeOfDtype(entry.dtype);
    if (!tensor.torch_type.has_value()) continue;
    // from_blob cannot express const; the tensor is only read.
    tensor.tensor = at::from_blob(const_cast<char*>(entry.bytes.data()), entry.shape,
                                  at::dtype(*tensor.torch_type));
  }
  return absl::OkStatus();
}

absl::string_view RecordOf(caffe2::serialize::PyTorchStreamReader& zip, const std::string& name,
                           std::vector<at::DataPtr>* kept) {
  auto [data, size] = zip.getRecord(name);
  kept->push_back(std::move(data));
  return {static_cast<const char*>(kept->back().get()), size};
}

absl::Status AddPickled(caffe2::serialize::PyTorchStreamReader& zip, const PickledTensor& entry,
                        FoundWeights* found) {
  FoundTensor& tensor = found->tensors[entry.name];
  tensor.shape = entry.shape;
  tensor.type = entry.storage_type;
  const std::optional<at::ScalarType> type = TypeOfStorage(entry.storage_type);
  tensor.torch_type = type;
  if (!type.has_value()) return absl::OkStatus();
  std::vector<at::DataPtr> kept;
  const absl::string_view bytes = RecordOf(zip, "data/" + entry.storage_key, &kept);
  if (bytes.size() / c10::elementSize(*type) < static_cast<size_t>(entry.storage_elements)) {
    return absl::DataLossError(absl::StrCat(entry.name, ": its storage ", entry.storage_key,
                                            " is too short: the file is damaged"));
  }
  const char* first = bytes.data() + static_cast<size_t>(entry.offset) * c10::elementSize(*type);
  tensor.tensor =
      at::from_blob(const_cast<char*>(first), entry.shape, entry.strides, at::dtype(*type)).clone();
  return absl::OkStatus();
}

absl::Status AddPt(const std::string& path, FoundWeights* found) {
  try {
    caffe2::serialize::PyTorchStreamReader zip(path);
    if (zip.hasRecord("constants.pkl")) {
      return absl::InvalidArgumentError(
          "is a TorchScript module: to train it, give it as model.file; to have its weights, "
          "torch.save(torch.jit.load(FILE).state_dict(), OTHER)");
    }
    if (!zip.hasRecord("data.pkl")) {
      return absl::InvalidArgumentError("is a zip file, and none that torch.save wrote");
    }
    std::vector<at::DataPtr> kept;
    PACELINE_ASSIGN_OR_RETURN(const PickledStateDict dict,
                              ParseStateDictPickle(RecordOf(zip, "data.pkl", &kept)));
    if (!dict.key.empty()) {
      found->notes.push_back(absl::StrCat("the weights are those under its key ", dict.key));
    }
    for (const PickledTensor& entry : dict.tensors) {
      PACELINE_RETURN_IF_ERROR(AddPickled(zip, entry, found));
    }
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return absl::DataLossError(
        absl::StrCat("cannot be read as torch.save wrote it: ", text.substr(0, text.find('\n'))));
  }
  return absl::OkStatus();
}

// Other files that people take for weights: their first bytes, and advice.
struct OtherFile {
  absl::string_view begins;
  const char* what;
};
constexpr char kSaveAnew[] =
    "a plain pickle, as torch.save wrote them before PyTorch 1.6: torch.save(torch.load(FILE, "
    "map_location=\"cpu\"), OTHER) writes it anew";
constexpr OtherFile kOtherFiles[] = {
    {"version https://git-lfs", "a pointer of Git LFS: fetch the file itself, git lfs pull"},
    {"GGUF", "a GGUF file, quantised for inference: take the model's safetensors"},
    {"\x89HDF", "an HDF5 file of Keras': take the model's safetensors"},
    {"\x93NUMPY", "a NumPy array: save a dictionary of tensors with safetensors.torch.save_file"},
    {"<", "a web page or XML: the download has failed"},
    {"\x1f\x8b", "compressed by gzip: unpack it"},
    {"\x80", kSaveAnew},
};

absl::Status AddFile(const std::string& path, FoundWeights* found) {
  std::error_code error;
  if (std::filesystem::is_empty(path, error) && !error) {
    return absl::DataLossError("the file is empty: a copy or download was broken off");
  }
  std::string first(32, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<size_t>(stream.gcount()));
  const bool is_safetensors = first.size() > 8 && first[8] == '{';
  if (is_safetensors || first.empty()) return AddSafetensors(path, found);  // Returns the error.
  if (absl::StartsWith(first, "PK")) return AddPt(path, found);
  for (const OtherFile& other : kOtherFiles) {
    if (absl::StartsWith(first, other.begins)) {
      return absl::InvalidArgumentError(absl::StrCat("is ", other.what));
    }
  }
  return absl::InvalidArgumentError(
      "is neither a safetensors file nor one that torch.save wrote, by its first bytes");
}

absl::Status AddDirectory(const std::string& directory, FoundWeights* found) {
  PACELINE_ASSIGN_OR_RETURN(const WeightsIndex index, ReadWeightsDirectory(directory));
  for (const auto& [name, expected] : index.files) {
    FoundWeights part;
    const absl::Status added = AddFile(absl::StrCat(directory, "/", name), &part);
    if (!added.ok()) {
      return absl::Status(added.code(), absl::StrCat(name, ": ", added.message()));
    }
    std::set<std::string> names;
    for (const auto& [tensor, unused] : part.tensors) names.insert(tensor);
    if (!index.file.empty()) {
      PACELINE_RETURN_IF_ERROR(CheckAgainstIndex(index.file, name, names, expected));
    }
    found->tensors.merge(part.tensors);
    found->notes.insert(found->notes.end(), part.notes.begin(), part.notes.end());
    found->maps.insert(found->maps.end(), part.maps.begin(), part.maps.end());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FoundWeights> FindWeights(const std::string& path) {
  FoundWeights found;
  std::error_code none;
  const bool is_directory = std::filesystem::is_directory(path, none);
  PACELINE_RETURN_IF_ERROR(is_directory ? AddDirectory(path, &found) : AddFile(path, &found));
  return found;
}

}  // namespace paceline
