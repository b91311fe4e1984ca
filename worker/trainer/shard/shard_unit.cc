#include "worker/trainer/shard/shard_unit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <limits>
#include <map>
#include <utility>

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

ShardUnit::ShardUnit(const std::vector<NamedTensor>& parameters, int shards, int position,
                     at::ScalarType whole_type)
    : shards_(shards), position_(position) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& parameter : parameters) {
    const at::Tensor& whole = parameter.tensor;
    TORCH_CHECK_VALUE(whole.dim() > 0 && whole.size(0) > 0, parameter.name,
                      " has no rows, so it cannot be divided among ", shards, " ranks");
    const int64_t row_values = whole.numel() / whole.size(0);
    segments_.push_back({whole, values_, row_values});
    const at::Tensor master = at::empty({0}, whole.options().dtype(at::kFloat));
    tensors_.push_back({parameter.name, whole.sizes().vec(), RowShard(), master});
    values_ += RowsPerShard(whole.size(0), shards) * row_values;
  }
  masters_ = at::zeros({values_}, parameters.front().tensor.options().dtype(at::kFloat));
  ShowMasters();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& whole = segments_[i].whole;
    const RowShard& rows = tensors_[i].rows;
    tensors_[i].master.copy_(whole.narrow(0, rows.begin, rows.count));
    if (whole.scalar_type() != whole_type) whole.set_data(whole.to(whole_type));
  }
}

void ShardUnit::ShowMasters() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    ShardedTensor& tensor = tensors_[i];
    tensor.rows = RowsOf(tensor.shape[0], shards_, position_);
    tensor.master.mutable_grad() = at::Tensor();
    tensor.master.set_data(RowsIn(masters_, i, position_));
  }
  gradients_ = at::Tensor();
}

void ShardUnit::SetPosition(int position) {
  const at::NoGradGuard no_grad;
  position_ = position;
  masters_.zero_();
  ShowMasters();
}

at::Tensor ShardUnit::RowsIn(const at::Tensor& flat, size_t index, int position) const {
  const Segment& segment = segments_[index];
  std::vector<int64_t> shape = tensors_[index].shape;
  shape[0] = RowsOf(shape[0], shards_, position).count;
  return flat.narrow(0, segment.offset, shape[0] * segment.row_values).view(shape);
}

void ShardUnit::CopyRows(const at::Tensor& all, size_t index, const at::Tensor& whole) const {
  for (int position = 0; position < shards_; ++position) {
    const RowShard rows = RowsOf(whole.size(0), shards_, position);
    whole.narrow(0, rows.begin, rows.count).copy_(RowsIn(all.select(0, position), index, position));
  }
}

void ShardUnit::DropGradients() {
  for (const Segment& segment : segments_) segment.whole.mutable_grad() = at::Tensor();
  gradients_ = at::Tensor();
}

void ShardUnit::ReduceScatter(Group* lane) {
  const at::NoGradGuard no_grad;
  at::Tensor all = at::zeros({shards_, values_}, masters_.options());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    at::Tensor& gradient = segments_[i].whole.mutable_grad();
    for (int position = 0; position < shards_; ++position) {
      const RowShard rows = RowsOf(gradient.size(0), shards_, position);
      RowsIn(all.select(0, position), i, position)
          .copy_(gradient.narrow(0, rows.begin, rows.count));
    }
    gradient = at::Tensor();
  }
  at::Tensor own = at::empty({values_}, masters_.options());
  replica_->ReduceScatter(own, all.view({-1}));
  all = at::Tensor();
  own.div_(shards_);
  if (gradients_.defined()) {
    gradients_.add_(own);
  } else {
    gradients_ = own;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].master.mutable_grad() = RowsIn(gradients_, i, position_);
    }
  }
  if (lane == nullptr) return;
  lane->Sum(gradients_);
  gradients_.div_(lane->size());
}

at::Tensor ShardUnit::MastersOfAll(at::ScalarType type) const {
  const at::Tensor all = at::empty({shards_, values_}, masters_.options().dtype(type));
  replica_->Gather(all.view({-1}), masters_.to(type));
  return all;
}

void ShardUnit::Gather() {
  const at::NoGradGuard no_grad;
  const at::Tensor all = MastersOfAll(segments_.front().whole.scalar_type());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& whole = segments_[i].whole;
    if (released_) whole.set_data(at::empty(tensors_[i].shape, whole.options()));
    CopyRows(all, i, whole);
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

std::vector<NamedTensor> ShardUnit::WholeMasters(bool keep) const {
  const at::NoGradGuard no_grad;
  at::Tensor all = MastersOfAll(at::kFloat);
  std::vector<NamedTensor> whole;
  if (!keep) return whole;
  all = all.cpu();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    whole.push_back({tensors_[i].name, at::empty(tensors_[i].shape, at::kFloat)});
    CopyRows(all, i, whole.back().tensor);
  }
  return whole;
}

std::vector<UnitIndices> UnitsOf(const std::vector<NamedTensor>& parameters) {
  UnitIndices vectors;
  std::vector<UnitIndices> units;
  std::map<absl::string_view, size_t> block_units;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].tensor.dim() < 2) {
      vectors.parameters.push_back(i);
      continue;
    }
    const absl::string_view block = BlockOf(parameters[i].name);
    if (block.empty()) {
      units.push_back({{i}, /*is_block=*/false});
      continue;
    }
    const auto [known, added] = block_units.try_emplace(block, units.size());
    if (added) units.push_back({{}, /*is_block=*/true});
    units[known->second].parameters.push_back(i);
  }
  if (!vectors.parameters.empty()) units.insert(units.begin(), std::move(vectors));
  return units;
}

}  // namespace paceline
