// The parameters of a model whose float32 values, gradients and optimizer state are divided among
// the ranks of a replica, each of which updates some rows of each (core/row_shard.h).
//
// ZeRO stage 2: each rank has the whole parameters for its forward and backward passes. Stage 3:
// the matrices of a block are whole only while the block computes.
//
// A step:  Gather ─▶ for each pass: BeginPass, [forward pass], [backward pass] ─▶ optimizer, over
//          parameters()
//
// Within the backward pass, the gradients of a unit of parameters are divided as soon as they are
// whole.
//
// All members of the replica's group must make the same calls in the same order, and those of the
// group of gradients too. Thread-compatible. Torch's exceptions pass through; a failed collective
// is a CollectiveError, or another exception if it was in a backward pass on a device.
#ifndef WORKER_TRAINER_SHARD_SHARDED_PARAMETERS_H_
#define WORKER_TRAINER_SHARD_SHARDED_PARAMETERS_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/model/gathered_weights.h"
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/shard/shard_unit.h"

namespace torch::autograd {
struct Node;
}  // namespace torch::autograd

namespace paceline {

// How a model's parameters are divided.
struct Sharding {
  int shards = 1;    // Ranks of a replica.
  int position = 0;  // This rank's among them.
  // Type of the whole matrices of blocks; that of all others is float32, like the masters'.
  at::ScalarType block_type = at::kFloat;
  bool releases_blocks = false;  // Stage 3.
};

// To the engine: this rank's rows of each parameter, in the order and under the names of the model,
// with its slices. The buffers are the model's.
class ShardedParameters : public ModelTensors {
 public:
  // `whole` must outlive this. Its weights are those of the training, and the same on all ranks.
  ShardedParameters(const ModelTensors& whole, const Sharding& sharding);
  ~ShardedParameters() override;

  Flops FlopsPerSample() const override { return whole_.FlopsPerSample(); }

  int position() const { return sharding_.position; }
  // This rank's rows become those of another position, with values of no meaning. The tensors stay
  // the same; their sizes may change.
  void SetPosition(int position);

  // The groups must outlive their use here. `replica`: by position; null: there is none, and none
  // of the calls below may be made. `gradients`: the ranks of this position that share gradients;
  // null: none do.
  void SetReplica(Group* replica);
  void SetGradientGroup(Group* gradients) { gradients_ = gradients; }

  // Makes the parameters of the model whole, but for matrices of blocks in stage 3, and drops the
  // gradients of the last step, which may have been cut off.
  void Gather();

  // Call before each forward pass in training: the gradients of its backward pass are added to
  // those of the rows. `last`: then the sum becomes the mean over the group of gradients.
  void BeginPass(bool last);

  // For Model::SetGatheredBlocks in stage 3: by block.
  std::vector<GatheredWeights*> Blocks();

  // A copy of the whole model on the host, in float32, on the replica's first rank; null on the
  // others. Collective over the replica.
  std::unique_ptr<ModelTensors> CopyWhole();

 private:
  struct Unit {
    ShardUnit parameters;
    bool is_block = false;
    size_t missing = 0;  // Gradients of the pass under way.
  };

  void SetSlices();
  // A parameter of this unit has its whole gradient.
  void OnGradient(size_t unit);

  const ModelTensors& whole_;
  Sharding sharding_;
  Group* gradients_ = nullptr;
  std::vector<Unit> units_;                        // In order of their first use in a forward pass.
  std::vector<std::pair<size_t, size_t>> places_;  // Of each parameter: unit, and index in it.
  bool last_pass_ = false;
  size_t due_ = 0;  // So many units, the first ones, have yet to be divided in the pass under way.
  // Of the whole parameters; they have the hooks.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SHARD_SHARDED_PARAMETERS_H_
