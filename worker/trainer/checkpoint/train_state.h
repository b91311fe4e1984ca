// What a checkpoint of a training holds, by name, and how the ranks share it:
//
//   model/<parameter>               equal on all ranks, as a save takes place only when they are
//   model/<buffer>                  each rank's own (statistics of BatchNorm), unless frozen
//   model/<further name>            the same tensor again, for who looks for it by that name
//   optimizer/<slot>/<parameter>    equal under ddp, in Slipstream's modes of gradients, and where
//                                   it is averaged; else each rank's own
//   optimizer/step                  steps that the optimizer made; own unless ddp, or such a mode
//   optimizer/step/<parameter>      instead, of each, where a model may leave parameters unused
//   averager/level<i>/<residual>    own: what int8 averages have still to send
//   slipstream/progress             own: slipstream_loop.h
//   rng/<device>                    own: the state of the random numbers
//
// Of what ranks have for themselves, rank 0's has the plain name, rank r's "rank<r>/" before it.
// The others are cut into parts, one for each rank (core/state_partition.h). Learning rate and
// schedule of averages are functions of the step, and so need no state.
//
// On the same number of ranks each gets back its own. Else rank r of W takes what rank
// floor(r V / W) of the V before had, and residuals of int8 start from zero. With another strategy
// what ranks had for themselves and now have in common is rank 0's.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_CHECKPOINT_TRAIN_STATE_H_
#define WORKER_TRAINER_CHECKPOINT_TRAIN_STATE_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/checkpoint/shard_saver.h"
#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// The state of all random numbers of this process that models draw for a device.
class RandomNumbers {
 public:
  // Takes the present state.
  explicit RandomNumbers(at::Device device);
  // Puts it back.
  void Restore() const;
  // What was taken: bytes on the host, the same number for a device of the same kind.
  std::vector<at::Tensor> tensors() const;

 private:
  const at::Device device_;
  const at::Tensor cpu_;
  const at::Tensor device_state_;  // Undefined for a CPU.
};

struct StateTensor {
  std::string name;   // Without a rank.
  at::Tensor tensor;  // Detached; shares the memory of the original, if it has one.
  bool own = false;
  bool at_once = false;  // The next forward pass may change it.
  bool again = false;    // By a further name: written, and not read.
};

// All but the strategy's. Order and shapes are equal on all ranks. `one_optimizer`: all ranks have
// the same optimizer's state now, though the strategy lets them have their own.
std::vector<StateTensor> CollectState(const TrainerConfig& config, const Model& model,
                                      const Optimizer& optimizer, bool one_optimizer = false);

// A rank's part of a checkpoint.
struct StatePart {
  std::vector<ShardEntry> entries;
  std::vector<ShardEntry> at_once;
};
StatePart PartOfRank(const std::vector<StateTensor>& state, int rank, int ranks);

// Reads all but the strategy's; errors as StateReader::Read.
absl::Status RestoreState(StateReader& reader, const TrainerConfig& config, const Model& model,
                          const Optimizer& optimizer);

// For people, of what RestoreState and its like have returned. FailedPrecondition: the checkpoint
// itself is wrong, and will be at the next start; Internal: the error may pass.
absl::Status RestoreError(const std::string& directory, const absl::Status& status);

// Reads what the strategy had, if the same number of ranks had the same `ladder`; else leaves it.
absl::Status RestoreStrategyState(StateReader& reader, const TrainerConfig& config,
                                  const std::string& ladder, const std::vector<NamedTensor>& state);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_TRAIN_STATE_H_
