// Parameters that the ranks of a replica exchange together, of which each rank updates some rows
// (core/row_shard.h).
//
// All members of the replica's group must make the same calls in the same order. Thread-compatible.
// Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_SHARD_SHARD_UNIT_H_
#define WORKER_TRAINER_SHARD_SHARD_UNIT_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/core/row_shard.h"
#include "worker/trainer/model/gathered_weights.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// A parameter of which this rank holds some rows.
struct ShardedTensor {
  std::string name;
  std::vector<int64_t> shape;  // Of the whole parameter.
  RowShard rows;               // Held here; there may be none.
  // Float [rows.count, ...], the same tensor for life. Its gradient is that of the rows.
  at::Tensor master;
};

class ShardUnit : public GatheredWeights {
 public:
  // Copies the rows of `position` of `shards`, then casts the parameters to `whole_type`; the model
  // keeps the tensors. Each must have rows and be on the same device.
  ShardUnit(const std::vector<NamedTensor>& parameters, int shards, int position,
            at::ScalarType whole_type);

  const std::vector<ShardedTensor>& tensors() const { return tensors_; }

  // The masters become the rows of another position, with values of no meaning.
  void SetPosition(int position);

  // The ranks that hold one copy together, by position. It must outlive its use here.
  void SetReplica(Group* replica) { replica_ = replica; }

  // Call before each step: drops gradients that the last one left, or what was cut off of it.
  void DropGradients();

  // Adds the mean over the replica of the parameters' gradients to those of the masters in this
  // step, in float32, and drops the parameters'. `lane`: the ranks that take the mean of the sum;
  // null: none do. Requires: all parameters have gradients.
  void ReduceScatter(Group* lane);

  // Sets the whole parameters to all ranks' masters, rounded to their type.
  void Gather() override;

  // Frees the whole parameters. They keep their shape, and each element is NaN, so that a use of
  // them does not go unseen.
  void Release() override;

  // All ranks' masters as whole parameters on the host, float32; empty unless `keep`. Collective,
  // like Gather.
  std::vector<NamedTensor> WholeMasters(bool keep) const;

 private:
  // Elements of the flat tensors below that a parameter has for each rank, padding included.
  struct Segment {
    at::Tensor whole;
    int64_t offset = 0;
    int64_t row_values = 0;  // Elements of a row.
  };

  void ShowMasters();
  // The rows of `position` of parameter `index` in one rank's segment of a flat tensor.
  at::Tensor RowsIn(const at::Tensor& flat, size_t index, int position) const;
  // All ranks' masters in this type: [shards, values_].
  at::Tensor MastersOfAll(at::ScalarType type) const;
  // Copies the rows of parameter `index` in `all`, a flat tensor of each rank, to `whole`.
  void CopyRows(const at::Tensor& all, size_t index, const at::Tensor& whole) const;

  const int shards_;
  int position_;
  Group* replica_ = nullptr;
  std::vector<ShardedTensor> tensors_;
  std::vector<Segment> segments_;  // In the order of tensors_.
  int64_t values_ = 0;             // Of one rank, padding included.
  at::Tensor masters_;             // Float [values_]; the masters are in it.
  at::Tensor gradients_;           // The same for the step's gradients, if there are some.
  bool released_ = false;
};

// Groups parameters, by their indices, in units. In the order of a forward pass: all vectors; each
// matrix that is in no block; the matrices of each block "...layers.<number>.".
struct UnitIndices {
  std::vector<size_t> parameters;
  bool is_block = false;
};
std::vector<UnitIndices> UnitsOf(const std::vector<NamedTensor>& parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_SHARD_SHARD_UNIT_H_
