#include "worker/trainer/checkpoint/weights.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/any.h>
#include <ATen/ops/isnan.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/core/slice.h"
#include "common/core/status_macros.h"
#include "common/safetensors/safetensors.h"
#include "worker/trainer/checkpoint/dtype.h"
#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/checkpoint/weights_file.h"
#include "worker/trainer/checkpoint/weights_fit.h"

namespace paceline {
namespace {

constexpr char kModelPrefix[] = "model/";

// All tensors under all their names.
std::vector<NamedTensor> StateOf(const ModelTensors& model) {
  std::vector<NamedTensor> state = model.parameters();
  state.insert(state.end(), model.buffers().begin(), model.buffers().end());
  for (const TiedName& tied : model.tied()) {
    const auto first = std::find_if(state.begin(), state.end(),
                                    [&](const NamedTensor& one) { return one.name == tied.first; });
    state.push_back({tied.name, first->tensor, first->frozen, first->slice});
  }
  return state;
}

// Pairs the tensors of `fit` with their names in the file.
std::vector<ReadTarget> TargetsOf(const WeightsFit& fit, const ModelTensors& model) {
  std::vector<ReadTarget> targets;
  for (const NamedTensor& wanted : StateOf(model)) {
    const auto source = fit.sources.find(wanted.name);
    if (source == fit.sources.end()) continue;
    targets.push_back({source->second, wanted.tensor.detach(), wanted.slice});
  }
  return targets;
}

// What of a whole tensor the target wants.
at::Tensor WantedOf(at::Tensor whole, const std::optional<Slice>& slice) {
  if (!slice.has_value()) return whole;
  for (size_t i = 0; i < slice->sizes.size(); ++i) {
    whole = whole.narrow(static_cast<int64_t>(i), slice->offsets[i], slice->sizes[i]);
  }
  return whole;
}

// Loads the model from one of our own checkpoints, and verifies checksums.
absl::StatusOr<std::vector<std::string>> LoadCheckpoint(const std::string& directory,
                                                        const ModelTensors& model) {
  PACELINE_ASSIGN_OR_RETURN(StateReader reader,
                            StateReader::Open(directory, at::get_num_threads()));
  FoundWeights found;
  for (const ManifestTensor& tensor : reader.manifest().tensors) {
    absl::string_view name = tensor.name;
    if (!absl::ConsumePrefix(&name, kModelPrefix)) continue;
    found.tensors[std::string(name)] = {tensor.shape, tensor.dtype, TypeOfDtype(tensor.dtype), {}};
  }
  // A tensor with two names was saved under both.
  for (const TiedName& tied : model.tied()) {
    if (found.tensors.count(tied.first) > 0) found.tensors.erase(tied.name);
  }
  PACELINE_ASSIGN_OR_RETURN(WeightsFit fit, FitWeights(found, model));
  std::vector<ReadTarget> targets = TargetsOf(fit, model);
  for (ReadTarget& target : targets) target.name = absl::StrCat(kModelPrefix, target.name);
  PACELINE_RETURN_IF_ERROR(reader.Read(targets));
  return std::move(fit.notes);
}

absl::StatusOr<std::vector<std::string>> LoadAny(const std::string& path,
                                                 const ModelTensors& model) {
  if (std::filesystem::exists(absl::StrCat(path, "/", kManifestName))) {
    return LoadCheckpoint(path, model);
  }
  PACELINE_ASSIGN_OR_RETURN(FoundWeights found, FindWeights(path));
  PACELINE_ASSIGN_OR_RETURN(WeightsFit fit, FitWeights(found, model));
  const at::NoGradGuard no_grad;
  for (const ReadTarget& target : TargetsOf(fit, model)) {
    at::Tensor(target.tensor).copy_(WantedOf(found.tensors.at(target.name).tensor, target.slice));
  }
  std::vector<std::string> notes = std::move(found.notes);
  notes.insert(notes.end(), fit.notes.begin(), fit.notes.end());
  return notes;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LoadWeights(const std::string& path,
                                                     const ModelTensors& model) {
  absl::StatusOr<std::vector<std::string>> notes = LoadAny(path, model);
  if (notes.ok()) return notes;
  return absl::InvalidArgumentError(
      absl::StrCat("init_from: ", path, ": ", notes.status().message()));
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

absl::Status SaveWeights(const std::string& path, const ModelTensors& model, bool save_nan) {
  const std::vector<NamedTensor> state = StateOf(model);
  for (const NamedTensor& one : state) {
    if (one.slice.has_value() && one.slice->sizes != one.slice->global_shape) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, ": not written: the model is sharded, and each rank has a slice of ", one.name,
          ": save a checkpoint, and export it by `paceline checkpoint export`"));
    }
    if (!save_nan && at::isnan(one.tensor).any().item<bool>()) {
      return absl::Status(absl::StatusCode::kFailedPrecondition,
                          absl::StrCat(path, ": ", NanError(one.name).message()));
    }
  }
  return SaveTensors(path, state);
}

}  // namespace paceline
