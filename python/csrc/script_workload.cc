#include "python/csrc/script_workload.h"

#include <c10/util/Exception.h>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/slipstream/buffers.h"

namespace paceline {
namespace {

void CheckDevice(const std::string& name, const at::Tensor& tensor, at::Device device) {
  TORCH_CHECK_VALUE(tensor.device() == device, name, " is on ", tensor.device(),
                    ", and this rank trains on ", device,
                    ": call model.to(run.device) before run.attach(model)");
}

// Positions that differ in the first dimension alone have other samples.
int RanksPerBatch(const std::vector<int>& mesh) {
  int ranks = 1;
  for (size_t dimension = 1; dimension < mesh.size(); ++dimension) ranks *= mesh[dimension];
  return ranks;
}

}  // namespace

ModuleTensors::ModuleTensors(at::Device device, const Named& parameters, const Named& buffers)
    : ModelTensors(device) {
  for (const auto& [name, tensor] : parameters) {
    CheckDevice(name, tensor, device);
    TORCH_CHECK_VALUE(tensor.is_leaf() && tensor.requires_grad(), name,
                      " is no parameter that requires gradients");
    AddParameter(name, tensor);
  }
  for (const auto& [name, tensor] : buffers) {
    CheckDevice(name, tensor, device);
    AddBuffer(name, tensor);
  }
  NoteStorage();
}

void ModuleTensors::SetSlices(NamedSlices slices) {
  for (auto& [name, slice] : slices) SetSlice(name, std::move(slice));
  NoteStorage();
}

void ModuleTensors::NoteStorage() {
  storages_.clear();
  for (const auto* list : {&parameters(), &buffers()}) {
    for (const NamedTensor& one : *list) {
      storages_.push_back({one.tensor.const_data_ptr(), one.tensor.sizes().vec()});
    }
  }
}

void ModuleTensors::CheckStorage() const {
  size_t i = 0;
  for (const auto* list : {&parameters(), &buffers()}) {
    for (const NamedTensor& one : *list) {
      const Storage& storage = storages_[i++];
      TORCH_CHECK_VALUE(
          one.tensor.const_data_ptr() == storage.data && one.tensor.sizes().vec() == storage.sizes,
          one.name,
          " has another storage than when it was attached; model.to(), .half() and p.data = ... "
          "are only possible before run.attach(model)");
    }
  }
}

void ScriptOptimizer::Update(const std::vector<at::Tensor>& parameters,
                             const std::vector<at::Tensor>& gradients,
                             const at::Tensor& /*learning_rate*/, const at::Tensor& skip) {
  TORCH_CHECK(shadow_ != nullptr && !skip.defined(),
              "the optimizer of a script is called by the script alone");
  shadow_->Update(parameters, gradients);
}

std::vector<at::Tensor> ScriptOptimizer::StepCounts() const {
  return shadow_ == nullptr ? std::vector<at::Tensor>() : shadow_->StepCounts();
}

std::vector<at::Tensor> ScriptOptimizer::State() const {
  return shadow_ == nullptr ? Optimizer::State() : shadow_->State();
}

void ScriptOptimizer::Reset() {
  TORCH_CHECK(shadow_ != nullptr, "the optimizer of a script is reset by the script alone");
  shadow_->Reset();
}

absl::Status ScriptOptimizer::CheckMean() const {
  return no_mean_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(no_mean_);
}

ScriptWorkload::ScriptWorkload(Parts parts)
    : parts_(std::move(parts)),
      ranks_per_batch_(RanksPerBatch(parts_.mesh)),
      optimizer_(TensorsOf(parts_.model->parameters()), parts_.shadow.get(), parts_.no_mean) {
  if (parts_.sharded != nullptr) parts_.model->SetSlices(parts_.sharded->Slices());
}

void ScriptWorkload::Close() {
  if (parts_.shadow != nullptr) parts_.shadow->Close();
}

absl::Status ScriptWorkload::CheckSlipstream() {
  if (!parts_.no_slipstream.empty()) return absl::InvalidArgumentError(parts_.no_slipstream);
  return paceline::CheckSlipstream(*parts_.model);
}

double ScriptWorkload::LearningRate(int64_t step) const {
  if (parts_.shadow != nullptr) return parts_.shadow->Schedule(step);
  if (step > rate_step_) {
    rate_step_ = step;
    rate_ = next_rate_;
  }
  return rate_;
}

Sampler::Options ScriptWorkload::SamplingAs(const Member& member) const {
  Sampler::Options options = parts_.sampling;
  options.rank = member.rank / ranks_per_batch_;
  options.world_size = member.world_size / ranks_per_batch_;
  if (options.batch == 0) options.batch = member.batch;
  return options;
}

void ScriptWorkload::OpenData(const Member& member, const DataPosition& position) {
  if (is_open_ && data_as_ == member) return;
  is_open_ = true;
  data_as_ = member;
  position_ = position;
  ++openings_;
}

void ScriptWorkload::CloseData() {
  is_open_ = false;
  gradient_group_ = nullptr;
  if (parts_.sharded != nullptr) parts_.sharded->Leave();
}

bool ScriptWorkload::SetShardGroups(const ShardGroups* groups) {
  if (groups == nullptr) return true;  // CloseData leaves them.
  TORCH_CHECK_VALUE(parts_.sharded != nullptr, "the model of the script is not sharded");
  ShardedModel::ProcessGroups joined{groups->replica->torch_group()};
  for (const std::shared_ptr<Group>& one : groups->mesh) joined.push_back(one->torch_group());
  if (parts_.sharded->Join(joined)) return true;
  parts_.model->SetSlices(parts_.sharded->Slices());
  optimizer_.SetSlots({});
  return false;
}

absl::Status ScriptWorkload::FinishUpdate(const at::Tensor& skip) {
  parts_.sharded->FinishUpdate(skip.defined() && skip.item<double>() != 0);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ScriptWorkload::TrainDry(const Member& /*member*/,
                                                              const DataPosition& /*position*/) {
  return std::vector<int64_t>();
}

}  // namespace paceline
