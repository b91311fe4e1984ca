// The functions of train_state.h that divide the state among the ranks.
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <utility>

#include "worker/trainer/checkpoint/own_name.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/core/state_partition.h"

namespace paceline {
namespace {

// A tensor without dimensions counts as one row.
RowLayout LayoutOf(const at::Tensor& tensor) {
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  return {rows, rows == 0 ? 0 : tensor.numel() * tensor.element_size() / rows};
}

// The name of an own tensor of a rank. Own slices are those of a replica.
std::string OwnNameOf(const StateTensor& one, int rank, const Lanes& lanes) {
  const bool of_replica = one.slice.has_value() && lanes.shards > 1;
  return of_replica ? OwnName(one.name, lanes.ReplicaOf(rank), kReplica) : OwnName(one.name, rank);
}

// What this rank's lane saves of the state: not a slice without elements, or one that another lane
// saves. A tensor that has no elements at all is saved whole.
std::vector<StateTensor> SavedOf(const std::vector<StateTensor>& state) {
  std::vector<StateTensor> saved;
  for (const StateTensor& one : state) {
    if (one.slice.has_value()) {
      const Slice& slice = *one.slice;
      TORCH_CHECK_VALUE(
          IsWithin(slice.box(), slice.global_shape) &&
              one.tensor.sizes() == at::IntArrayRef(slice.sizes),
          one.name, " is no slice of the sizes and of a tensor of the shape that are said of it");
      if (ElementsOf(slice.global_shape) == 0) {
        saved.push_back(one);
        saved.back().tensor = at::empty(slice.global_shape, one.tensor.options());
        saved.back().slice.reset();
        continue;
      }
      if (slice.copy != 0 || one.tensor.numel() == 0) continue;
    }
    saved.push_back(one);
  }
  return saved;
}

ShardEntry EntryOf(std::string name, const StateTensor& one, const RowRange& range) {
  const at::Tensor& tensor = one.tensor;
  ShardEntry entry;
  entry.name = std::move(name);
  entry.shape = tensor.sizes().vec();
  entry.first_row = range.first_row;
  if (one.slice.has_value() && tensor.dim() > 0) {
    const Slice& slice = *one.slice;
    entry.shape = slice.global_shape;
    entry.first_row += slice.offsets[0];
    if (!IsRowRange(slice.box(), slice.global_shape)) {
      entry.offsets = slice.offsets;
      entry.offsets[0] = entry.first_row;
    }
  }
  // Copies a tensor with another memory layout, which a user's module may have.
  entry.rows =
      (tensor.dim() == 0 ? tensor : tensor.narrow(0, range.first_row, range.rows)).contiguous();
  return entry;
}

}  // namespace

int64_t StatePart::bytes() const {
  int64_t bytes = 0;
  for (const auto* list : {&entries, &at_once}) {
    for (const ShardEntry& entry : *list) bytes += static_cast<int64_t>(entry.rows.nbytes());
  }
  return bytes;
}

StatePart PartOfRank(const std::vector<StateTensor>& state, int rank, int ranks,
                     const Lanes& lanes) {
  const std::vector<StateTensor> saved = SavedOf(state);
  StatePart part;
  const auto list = [&](const StateTensor& one) -> std::vector<ShardEntry>& {
    return one.at_once ? part.at_once : part.entries;
  };
  // Whole tensors are divided among all ranks, slices among those of the lane.
  std::vector<const StateTensor*> whole;
  std::vector<const StateTensor*> slices;
  for (const StateTensor& one : saved) {
    if (one.own) {
      const RowRange all{0, 0, LayoutOf(one.tensor).rows};
      list(one).push_back(EntryOf(OwnNameOf(one, rank, lanes), one, all));
    } else {
      (one.slice.has_value() ? slices : whole).push_back(&one);
    }
  }
  const auto divide = [&](const std::vector<const StateTensor*>& tensors, int index, int count) {
    std::vector<RowLayout> layouts;
    for (const StateTensor* one : tensors) layouts.push_back(LayoutOf(one->tensor));
    for (const RowRange& range : PartOfRank(layouts, index, count)) {
      const StateTensor& one = *tensors[range.tensor];
      list(one).push_back(EntryOf(one.name, one, range));
    }
  };
  divide(whole, rank, ranks);
  divide(slices, lanes.ReplicaOf(rank), lanes.ReplicasIn(ranks));
  return part;
}

}  // namespace paceline
