#include "worker/trainer/shard/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <map>
#include <string>

#include "common/core/slice.h"

namespace paceline {
namespace {

// Called in a backward pass when a parameter's gradient is whole.
class GradientHook : public torch::autograd::FunctionPostHook {
 public:
  explicit GradientHook(std::function<void()> on_gradient) : on_gradient_(std::move(on_gradient)) {}

  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& outputs,
      const torch::autograd::variable_list& /*inputs*/) override {
    on_gradient_();
    return outputs;
  }

 private:
  const std::function<void()> on_gradient_;
};

class HostModel : public ModelTensors {
 public:
  HostModel() : ModelTensors(at::kCPU) {}
  using ModelTensors::AddBuffer;
  using ModelTensors::AddParameter;
};

}  // namespace

ShardedParameters::ShardedParameters(const ModelTensors& whole, const Sharding& sharding)
    : ModelTensors(whole.device()),
      whole_(whole),
      sharding_(sharding),
      places_(whole.parameters().size()) {
  for (const UnitIndices& indices : UnitsOf(whole.parameters())) {
    std::vector<NamedTensor> parameters;
    for (const size_t index : indices.parameters) {
      places_[index] = {units_.size(), parameters.size()};
      parameters.push_back(whole.parameters()[index]);
    }
    const at::ScalarType type = indices.is_block ? sharding.block_type : at::kFloat;
    units_.push_back(
        {ShardUnit(parameters, sharding.shards, sharding.position, type), indices.is_block});
    if (indices.is_block && sharding.releases_blocks) units_.back().parameters.Release();
  }
  std::map<std::string, at::Tensor> masters;
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto [unit, index] = places_[i];
    const ShardedTensor& tensor = units_[unit].parameters.tensors()[index];
    masters[tensor.name] = AddParameter(tensor.name, tensor.master);
    // Behind the cast: a tensor of another type gets another accumulator.
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(whole.parameters()[i].tensor));
    accumulators_.back()->add_post_hook(
        std::make_unique<GradientHook>([this, unit = unit] { OnGradient(unit); }));
  }
  for (const NamedTensor& buffer : whole.buffers()) {
    AddBuffer(buffer.name, buffer.tensor, buffer.frozen);
  }
  for (const TiedName& tied : whole.tied()) AddParameter(tied.name, masters.at(tied.first));
  SetSlices();
}

ShardedParameters::~ShardedParameters() = default;

void ShardedParameters::SetSlices() {
  for (const Unit& unit : units_) {
    for (const ShardedTensor& tensor : unit.parameters.tensors()) {
      Slice slice;
      slice.global_shape = tensor.shape;
      slice.offsets.assign(tensor.shape.size(), 0);
      slice.offsets[0] = tensor.rows.begin;
      slice.sizes = tensor.shape;
      slice.sizes[0] = tensor.rows.count;
      SetSlice(tensor.name, std::move(slice));
    }
  }
}

void ShardedParameters::SetPosition(int position) {
  sharding_.position = position;
  for (Unit& unit : units_) unit.parameters.SetPosition(position);
  SetSlices();
}

void ShardedParameters::SetReplica(Group* replica) {
  for (Unit& unit : units_) unit.parameters.SetReplica(replica);
}

void ShardedParameters::Gather() {
  due_ = 0;
  for (Unit& unit : units_) {
    unit.parameters.DropGradients();
    if (unit.is_block && sharding_.releases_blocks) {
      unit.parameters.Release();
    } else {
      unit.parameters.Gather();
    }
  }
}

void ShardedParameters::BeginPass(bool last) {
  last_pass_ = last;
  due_ = units_.size();
  for (Unit& unit : units_) unit.missing = unit.parameters.tensors().size();
}

// Units go in one order on all ranks, whichever is complete first.
void ShardedParameters::OnGradient(size_t unit) {
  if (due_ == 0) return;
  --units_[unit].missing;
  while (due_ > 0 && units_[due_ - 1].missing == 0) {
    --due_;
    units_[due_].parameters.ReduceScatter(last_pass_ ? gradients_ : nullptr);
  }
}

std::vector<GatheredWeights*> ShardedParameters::Blocks() {
  std::vector<GatheredWeights*> blocks;
  for (Unit& unit : units_) {
    if (unit.is_block) blocks.push_back(&unit.parameters);
  }
  return blocks;
}

std::unique_ptr<ModelTensors> ShardedParameters::CopyWhole() {
  const at::NoGradGuard no_grad;
  const bool keep = sharding_.position == 0;
  std::vector<std::vector<NamedTensor>> wholes;  // By unit.
  for (const Unit& unit : units_) wholes.push_back(unit.parameters.WholeMasters(keep));
  if (!keep) return nullptr;
  auto copy = std::make_unique<HostModel>();
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [unit, index] : places_) {
    const NamedTensor& one = wholes[unit][index];
    tensors[one.name] = copy->AddParameter(one.name, one.tensor);
  }
  for (const NamedTensor& buffer : whole_.buffers()) {
    tensors[buffer.name] = copy->AddBuffer(buffer.name, buffer.tensor, buffer.frozen);
  }
  for (const TiedName& tied : whole_.tied()) copy->AddParameter(tied.name, tensors.at(tied.first));
  return copy;
}

}  // namespace paceline
