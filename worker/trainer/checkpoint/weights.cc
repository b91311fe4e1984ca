#include "worker/trainer/checkpoint/weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <caffe2/serialize/inline_container.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/status_macros.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/dtype.h"
#include "worker/trainer/checkpoint/state_dict_pickle.h"

namespace paceline {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

// The file's tensors, as views of its map.
absl::StatusOr<Tensors> ViewTensors(const SafetensorsFile& file) {
  Tensors tensors;
  for (const Safetensor& entry : file.tensors()) {
    const std::optional<at::ScalarType> type = TypeOfDtype(entry.dtype);
    if (!type.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.name, ": weights of dtype ", entry.dtype, " cannot be read"));
    }
    // Only read from, so the constness that from_blob cannot express is kept.
    tensors[entry.name] =
        at::from_blob(const_cast<char*>(entry.bytes.data()), entry.shape, at::dtype(*type));
  }
  return tensors;
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

std::string ShapeOf(const at::Tensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.sizes(), ", "), "]");
}

absl::Status CopyInto(const Tensors& tensors, const std::vector<NamedTensor>& state) {
  std::vector<std::string> problems;
  std::map<std::string, const at::Tensor*> unexpected;
  for (const auto& [name, tensor] : tensors) unexpected[name] = &tensor;
  for (const NamedTensor& wanted : state) {
    const auto found = tensors.find(wanted.name);
    unexpected.erase(wanted.name);
    if (found == tensors.end()) {
      problems.push_back(absl::StrCat(wanted.name, " is missing"));
    } else if (found->second.sizes() != wanted.tensor.sizes()) {
      problems.push_back(absl::StrCat(wanted.name, " has shape ", ShapeOf(found->second),
                                      " and needs ", ShapeOf(wanted.tensor)));
    }
  }
  for (const auto& [name, tensor] : unexpected) {
    problems.push_back(absl::StrCat(name, " is not in the model"));
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("does not fit the model: ", absl::StrJoin(problems, "; ")));
  }
  at::NoGradGuard no_grad;
  for (const NamedTensor& wanted : state) at::Tensor(wanted.tensor).copy_(tensors.at(wanted.name));
  return absl::OkStatus();
}

absl::Status LoadAny(const std::string& path, const std::vector<NamedTensor>& state) {
  if (absl::EndsWith(path, ".pt")) {
    PACELINE_ASSIGN_OR_RETURN(const Tensors tensors, ReadPt(path));
    return CopyInto(tensors, state);
  }
  PACELINE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  PACELINE_ASSIGN_OR_RETURN(const Tensors tensors, ViewTensors(file));
  return CopyInto(tensors, state);
}

}  // namespace

absl::Status LoadWeights(const std::string& path, const Model& model) {
  const absl::Status status = LoadAny(path, StateOf(model));
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("init_from: ", path, ": ", status.message()));
}

absl::Status SaveWeights(const std::string& path, const Model& model) {
  std::vector<Safetensor> entries;
  std::vector<at::Tensor> host;  // Keeps the bytes alive.
  for (const NamedTensor& named : StateOf(model)) {
    host.push_back(named.tensor.detach().cpu().contiguous());
    const at::Tensor& tensor = host.back();
    entries.push_back({named.name,
                       DtypeOfType(tensor.scalar_type()),
                       tensor.sizes().vec(),
                       {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return WriteSafetensors(path, entries);
}

}  // namespace paceline
