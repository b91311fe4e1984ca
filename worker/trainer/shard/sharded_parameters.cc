#include "worker/trainer/shard/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <limits>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace paceline {
namespace {

// "model.layers.12." of "model.layers.12.mlp.up_proj.weight"; empty: it is in no block.
absl::string_view BlockOf(absl::string_view name) {
  constexpr absl::string_view kLayers = "layers.";
  const size_t layers = name.find(kLayers);
  if (layers == absl::string_view::npos) return "";
  const size_t number = layers + kLayers.size();
  size_t end = number;
  while (end < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[end]))) ++end;
  if (end == number || end == name.size() || name[end] != '.') return "";
  return name.substr(0, end + 1);
}

}  // namespace

ShardUnit::ShardUnit(const std::vector<NamedTensor>& parameters, const Sharding& sharding)
    : replica_(sharding.replica), position_(sharding.position) {
  const at::NoGradGuard no_grad;
  const int shards = replica_.size();
  for (const NamedTensor& parameter : parameters) {
    const at::Tensor& whole = parameter.tensor;
    TORCH_CHECK_VALUE(whole.dim() > 0 && whole.size(0) > 0, parameter.name,
                      " has no rows, so it cannot be divided among ", shards, " ranks");
    const int64_t row_values = whole.numel() / whole.size(0);
    segments_.push_back({whole, values_, row_values});
    tensors_.push_back({parameter.name, whole.sizes().vec(),
                        RowsOf(whole.size(0), shards, position_), at::Tensor()});
    values_ += RowsPerShard(whole.size(0), shards) * row_values;
  }
  masters_ = at::zeros({values_}, parameters.front().tensor.options().dtype(at::kFloat));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& whole = segments_[i].whole;
    ShardedTensor& tensor = tensors_[i];
    tensor.master = RowsIn(masters_, i, position_);
    tensor.master.copy_(whole.narrow(0, tensor.rows.begin, tensor.rows.count));
    if (whole.scalar_type() != sharding.whole_type) whole.set_data(whole.to(sharding.whole_type));
  }
}

at::Tensor ShardUnit::RowsIn(const at::Tensor& flat, size_t index, int position) const {
  const Segment& segment = segments_[index];
  std::vector<int64_t> shape = tensors_[index].shape;
  shape[0] = RowsOf(shape[0], replica_.size(), position).count;
  return flat.narrow(0, segment.offset, shape[0] * segment.row_values).view(shape);
}

void ShardUnit::ReduceScatter() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    TORCH_CHECK_VALUE(segments_[i].whole.grad().defined(), "the loss does not depend on ",
                      tensors_[i].name, ", whose gradient is to be divided among the ranks");
  }
  const int shards = replica_.size();
  at::Tensor all = at::zeros({shards, values_}, masters_.options());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    at::Tensor& gradient = segments_[i].whole.mutable_grad();
    for (int position = 0; position < shards; ++position) {
      const RowShard rows = RowsOf(gradient.size(0), shards, position);
      RowsIn(all.select(0, position), i, position)
          .copy_(gradient.narrow(0, rows.begin, rows.count));
    }
    gradient = at::Tensor();
  }
  at::Tensor own = at::empty({values_}, masters_.options());
  replica_.ReduceScatter(own, all.view({-1}));
  own.div_(shards);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    at::Tensor& sum = tensors_[i].master.mutable_grad();
    const at::Tensor more = RowsIn(own, i, position_);
    if (sum.defined()) {
      sum.add_(more);
    } else {
      sum = more;
    }
  }
}

void ShardUnit::Gather() {
  const at::NoGradGuard no_grad;
  const int shards = replica_.size();
  const at::ScalarType type = segments_.front().whole.scalar_type();
  at::Tensor all = at::empty({shards, values_}, masters_.options().dtype(type));
  replica_.Gather(all.view({-1}), masters_.to(type));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& whole = segments_[i].whole;
    if (released_) whole.set_data(at::empty(tensors_[i].shape, whole.options()));
    for (int position = 0; position < shards; ++position) {
      const RowShard rows = RowsOf(whole.size(0), shards, position);
      whole.narrow(0, rows.begin, rows.count).copy_(RowsIn(all.select(0, position), i, position));
    }
  }
  released_ = false;
}

void ShardUnit::Release() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& whole = segments_[i].whole;
    const at::Tensor one = at::full({}, std::numeric_limits<double>::quiet_NaN(), whole.options());
    whole.set_data(one.expand(tensors_[i].shape));
  }
  released_ = true;
}

ShardedParameters::ShardedParameters(const ModelTensors& model, const Sharding& sharding)
    : places_(model.parameters().size()) {
  for (const std::vector<size_t>& indices : UnitsOf(model.parameters())) {
    std::vector<NamedTensor> parameters;
    for (const size_t index : indices) {
      places_[index] = {units_.size(), parameters.size()};
      parameters.push_back(model.parameters()[index]);
    }
    units_.emplace_back(parameters, sharding);
  }
}

std::vector<NamedTensor> ShardedParameters::masters() const {
  std::vector<NamedTensor> masters;
  for (const auto& [unit, index] : places_) {
    const ShardedTensor& tensor = units_[unit].tensors()[index];
    masters.push_back({tensor.name, tensor.master});
  }
  return masters;
}

void ShardedParameters::ReduceScatter() {
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) unit->ReduceScatter();
}

void ShardedParameters::Gather() {
  for (ShardUnit& unit : units_) unit.Gather();
}

std::vector<std::vector<size_t>> UnitsOf(const std::vector<NamedTensor>& parameters) {
  std::vector<size_t> rest;
  std::vector<std::vector<size_t>> blocks;
  std::map<absl::string_view, size_t> block_of;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const absl::string_view block = BlockOf(parameters[i].name);
    if (block.empty()) {
      rest.push_back(i);
      continue;
    }
    const auto [known, added] = block_of.try_emplace(block, blocks.size());
    if (added) blocks.emplace_back();
    blocks[known->second].push_back(i);
  }
  if (!rest.empty()) blocks.insert(blocks.begin(), std::move(rest));
  return blocks;
}

}  // namespace paceline
