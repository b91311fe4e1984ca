#include "worker/trainer/checkpoint/weights.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/core/status_macros.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/dtype.h"
#include "worker/trainer/checkpoint/state_dict_pickle.h"
#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/checkpoint/weights_directory.h"

namespace paceline {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

using Shapes = std::map<std::string, std::vector<int64_t>>;

constexpr char kModelPrefix[] = "model/";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";

// Adds the file's tensors, as views of its map.
absl::Status ViewTensors(const SafetensorsFile& file, Tensors* tensors) {
  for (const Safetensor& entry : file.tensors()) {
    const std::optional<at::ScalarType> type = TypeOfDtype(entry.dtype);
    if (!type.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.name, ": weights of dtype ", entry.dtype, " cannot be read"));
    }
    // Only read from, so the constness that from_blob cannot express is kept.
    (*tensors)[entry.name] =
        at::from_blob(const_cast<char*>(entry.bytes.data()), entry.shape, at::dtype(*type));
  }
  return absl::OkStatus();
}

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

absl::string_view RecordOf(caffe2::serialize::PyTorchStreamReader& zip, const std::string& name,
                           std::vector<at::DataPtr>* kept) {
  auto [data, size] = zip.getRecord(name);
  kept->push_back(std::move(data));
  return {static_cast<const char*>(kept->back().get()), size};
}

// The tensors of a .pt file.
absl::StatusOr<Tensors> ReadPt(const std::string& path) {
  std::vector<at::DataPtr> kept;
  Tensors tensors;
  try {
    caffe2::serialize::PyTorchStreamReader zip(path);
    PACELINE_ASSIGN_OR_RETURN(const std::vector<PickledTensor> entries,
                              ParseStateDictPickle(RecordOf(zip, "data.pkl", &kept)));
    for (const PickledTensor& entry : entries) {
      const std::optional<at::ScalarType> type = TypeOfStorage(entry.storage_type);
      const absl::string_view bytes = RecordOf(zip, "data/" + entry.storage_key, &kept);
      if (!type.has_value() ||
          bytes.size() / c10::elementSize(*type) < static_cast<size_t>(entry.storage_elements)) {
        return absl::DataLossError(absl::StrCat(entry.name, ": unknown or short storage ",
                                                entry.storage_type, " ", entry.storage_key));
      }
      const char* first =
          bytes.data() + static_cast<size_t>(entry.offset) * c10::elementSize(*type);
      tensors[entry.name] =
          at::from_blob(const_cast<char*>(first), entry.shape, entry.strides, at::dtype(*type))
              .clone();
    }
  } catch (const c10::Error& error) {
    return absl::DataLossError(
        absl::StrCat("cannot be read as a .pt file: ", error.what_without_backtrace()));
  }
  return tensors;
}

std::vector<NamedTensor> StateOf(const Model& model) {
  std::vector<NamedTensor> state = model.parameters();
  state.insert(state.end(), model.buffers().begin(), model.buffers().end());
  return state;
}

std::string ShapeText(at::IntArrayRef shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// InvalidArgument, with all that differs, unless names and shapes are exactly the model's.
absl::Status CheckFit(const Shapes& found, const std::vector<NamedTensor>& state) {
  std::vector<std::string> problems;
  Shapes unexpected = found;
  for (const NamedTensor& wanted : state) {
    unexpected.erase(wanted.name);
    const auto at = found.find(wanted.name);
    if (at == found.end()) {
      problems.push_back(absl::StrCat(wanted.name, " is missing"));
    } else if (wanted.tensor.sizes() != at::IntArrayRef(at->second)) {
      problems.push_back(absl::StrCat(wanted.name, " has shape ", ShapeText(at->second),
                                      " and needs ", ShapeText(wanted.tensor.sizes())));
    }
  }
  for (const auto& [name, shape] : unexpected) {
    problems.push_back(absl::StrCat(name, " is not in the model"));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("does not fit the model: ", absl::StrJoin(problems, "; ")));
}

bool Has(const std::vector<NamedTensor>& state, const char* name) {
  return std::any_of(state.begin(), state.end(),
                     [name](const NamedTensor& named) { return named.name == name; });
}

// Some files of a llama with a tied embedding hold it twice; what is once in the model is taken
// once, if both are equal.
void DropTiedHead(const std::vector<NamedTensor>& state, Tensors* tensors) {
  const auto head = tensors->find(kHead);
  const auto embedding = tensors->find(kEmbedding);
  if (head == tensors->end() || embedding == tensors->end()) return;
  if (Has(state, kHead) || !Has(state, kEmbedding)) return;
  const bool alike = head->second.scalar_type() == embedding->second.scalar_type() &&
                     head->second.sizes() == embedding->second.sizes();
  if (alike && at::equal(head->second, embedding->second)) tensors->erase(head);
}

absl::Status CopyInto(Tensors tensors, const std::vector<NamedTensor>& state) {
  DropTiedHead(state, &tensors);
  Shapes shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.sizes().vec();
  PACELINE_RETURN_IF_ERROR(CheckFit(shapes, state));
  const at::NoGradGuard no_grad;
  for (const NamedTensor& wanted : state) at::Tensor(wanted.tensor).copy_(tensors.at(wanted.name));
  return absl::OkStatus();
}

// The model of one of our own checkpoints; its checksums are compared.
absl::Status LoadCheckpoint(const std::string& directory, const std::vector<NamedTensor>& state) {
  PACELINE_ASSIGN_OR_RETURN(StateReader reader,
                            StateReader::Open(directory, at::get_num_threads()));
  Shapes shapes;
  for (const ManifestTensor& tensor : reader.manifest().tensors) {
    absl::string_view name = tensor.name;
    if (absl::ConsumePrefix(&name, kModelPrefix)) shapes[std::string(name)] = tensor.shape;
  }
  PACELINE_RETURN_IF_ERROR(CheckFit(shapes, state));
  std::vector<ReadTarget> targets;
  for (const NamedTensor& wanted : state) {
    targets.push_back({absl::StrCat(kModelPrefix, wanted.name), wanted.tensor.detach()});
  }
  return reader.Read(targets);
}

absl::Status LoadFiles(const std::vector<SafetensorsFile>& files,
                       const std::vector<NamedTensor>& state) {
  Tensors tensors;
  for (const SafetensorsFile& file : files) PACELINE_RETURN_IF_ERROR(ViewTensors(file, &tensors));
  return CopyInto(std::move(tensors), state);
}

absl::Status LoadAny(const std::string& path, const std::vector<NamedTensor>& state) {
  if (std::filesystem::is_directory(path)) {
    if (std::filesystem::exists(absl::StrCat(path, "/", kManifestName))) {
      return LoadCheckpoint(path, state);
    }
    PACELINE_ASSIGN_OR_RETURN(const std::vector<SafetensorsFile> files, OpenWeightsDirectory(path));
    return LoadFiles(files, state);
  }
  if (absl::EndsWith(path, ".pt")) {
    PACELINE_ASSIGN_OR_RETURN(Tensors tensors, ReadPt(path));
    return CopyInto(std::move(tensors), state);
  }
  std::vector<SafetensorsFile> files;
  PACELINE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  files.push_back(std::move(file));
  return LoadFiles(files, state);
}

}  // namespace

absl::Status LoadWeights(const std::string& path, const Model& model) {
  const absl::Status status = LoadAny(path, StateOf(model));
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("init_from: ", path, ": ", status.message()));
}

absl::Status SaveTensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::vector<Safetensor> entries;
  std::vector<at::Tensor> host;  // Keeps the bytes alive.
  for (const NamedTensor& named : tensors) {
    host.push_back(named.tensor.detach().cpu().contiguous());
    const at::Tensor& tensor = host.back();
    entries.push_back({named.name,
                       DtypeOfType(tensor.scalar_type()),
                       tensor.sizes().vec(),
                       {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return WriteSafetensors(path, entries);
}

absl::Status SaveWeights(const std::string& path, const Model& model) {
  return SaveTensors(path, StateOf(model));
}

}  // namespace paceline
