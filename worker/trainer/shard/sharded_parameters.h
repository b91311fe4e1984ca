// Parameters whose float32 values, gradients and optimizer state are divided among the ranks of a
// replica (ZeRO stage 2): each rank has the whole parameters for its forward and backward pass, and
// updates some rows of each (core/row_shard.h).
//
// A step:  backward pass ─▶ ReduceScatter ─▶ optimizer, over masters() ─▶ Gather
//
// All members of the replica's group must make the same calls in the same order. Thread-compatible.
// Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_SHARD_SHARDED_PARAMETERS_H_
#define WORKER_TRAINER_SHARD_SHARDED_PARAMETERS_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/core/row_shard.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// How a model's parameters are divided.
struct Sharding {
  Group& replica;    // The ranks that hold one copy together. Must outlive its users.
  int position = 0;  // This rank's index in the group.
  // Type of the whole parameters; masters are float32.
  at::ScalarType whole_type = at::kFloat;
};

// A parameter of which this rank holds some rows.
struct ShardedTensor {
  std::string name;
  std::vector<int64_t> shape;  // Of the whole parameter.
  RowShard rows;               // Held here; there may be none.
  // Float [rows.count, ...], the same tensor for life. Its gradient is that of the rows.
  at::Tensor master;
};

// Parameters that are exchanged together: a block, or all that are in none.
class ShardUnit {
 public:
  // Copies this rank's rows, then casts the parameters, of which the model keeps the tensors.
  // Each must have rows and be on the same device.
  ShardUnit(const std::vector<NamedTensor>& parameters, const Sharding& sharding);

  const std::vector<ShardedTensor>& tensors() const { return tensors_; }

  // Adds the mean over the group of the parameters' gradients to the masters', in float32, and
  // drops the parameters'. Throws c10::ValueError that names a parameter without a gradient, before
  // anything is sent.
  void ReduceScatter();

  // Sets the whole parameters to all ranks' masters, rounded to their type.
  void Gather();

  // Frees the whole parameters until the next Gather. They keep their shape, and each element is
  // NaN, so that a use of them does not go unseen.
  void Release();

 private:
  // Elements of the flat tensors below that a parameter has for each rank, padding included.
  struct Segment {
    at::Tensor whole;
    int64_t offset = 0;
    int64_t row_values = 0;  // Elements of a row.
  };

  // This position's rows of parameter `index` in one rank's segment of a flat tensor.
  at::Tensor RowsIn(const at::Tensor& flat, size_t index, int position) const;

  Group& replica_;
  const int position_;
  std::vector<ShardedTensor> tensors_;
  std::vector<Segment> segments_;  // In the order of tensors_.
  int64_t values_ = 0;             // Of one rank, padding included.
  at::Tensor masters_;             // Float [values_]; the masters are views of it.
  bool released_ = false;
};

class ShardedParameters {
 public:
  // `model` must outlive this.
  ShardedParameters(const ModelTensors& model, const Sharding& sharding);

  // In order of their first use in a forward pass.
  std::vector<ShardUnit>& units() { return units_; }

  // This rank's rows of all parameters, in the model's order and under its names.
  std::vector<NamedTensor> masters() const;

  void ReduceScatter();  // Of all units, in the order of a backward pass.
  void Gather();         // Of all units, in the order of a forward pass.

 private:
  std::vector<ShardUnit> units_;
  std::vector<std::pair<size_t, size_t>> places_;  // Of each parameter: unit, and index in it.
};

// Groups parameters, by their indices, in units: first those that are in no block, then each block
// "...layers.<number>.".
std::vector<std::vector<size_t>> UnitsOf(const std::vector<NamedTensor>& parameters);

}  // namespace paceline

#endif  // WORKER_TRAINER_SHARD_SHARDED_PARAMETERS_H_
