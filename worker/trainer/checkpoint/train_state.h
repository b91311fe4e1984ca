// The tensors in a checkpoint of a training, by name, and how the ranks divide them:
//
//   model/<parameter>               equal on all ranks, since saves only happen when they are
//   model/<buffer>                  own (statistics of BatchNorm), unless frozen
//   model/<further name>            the same tensor under another name that readers may look for
//   optimizer/<slot>/<parameter>    equal with ddp, in Slipstream's gradient modes, and where it
//                                   is averaged; otherwise own, but for a compensation, which is as
//                                   equal as the parameters
//   optimizer/step                  steps that the optimizer made; equal with ddp or such a mode
//   optimizer/step/<parameter>      instead, one each, where a model may leave parameters unused
//   averager/gradient_order         with what is attached: gradient_mean.h
//   averager/gradient_rest          own: what quantised gradients have still to send
//   averager/level<i>/<residual>    own: what quantised averages have still to send
//   averager/level<i>/momentum      own: of the outer steps of a level below the last
//   averager/momentum/<parameter>   of the last level's outer steps: equal on all ranks
//   averager/own/<parameter>        own: with a streamed outer step, the rank's parameters;
//                                   model/<parameter> is then the point that all have in common
//   slipstream/progress             own: slipstream_loop.h
//   rng/<device>                    own: the state of the random numbers
//   attached/<scope>/schema         own: what the tensors of this scope are (loop/attachments.h);
//                                   equal state need not have an equal schema
//   attached/<scope>/<i>            the tensors: equal for `shared` with ddp, otherwise own; what
//                                   is attached has the optimizer's state
//
// "Own" tensors differ by rank: rank 0's has the plain name, rank r's the prefix "rank<r>/". Other
// tensors are cut into parts, one per rank (core/state_partition.h). Learning rate and averaging
// schedule are functions of the step and need no state.
//
// With the same number of ranks, each gets its own tensors back. Otherwise rank r of W takes those
// of rank floor(r V / W) of the previous V, and what is of a level starts from zero. When a new
// strategy shares what each rank had for itself, rank 0's is taken.
//
// Of a sharded model (common/core/lanes.h), parameters and what has their shape are slices. A slice
// is equal on the ranks of its lane, which cut it into parts, one per replica; all lanes together
// write the whole tensor under its name, and any other slicing can be read from it. Own slices
// differ by replica: replica 0's have the plain name, replica q's the prefix "replica<q>/", and
// with another number of replicas each takes those of the one in its place, as above. Other own
// tensors go by rank: with as many shards, to ranks of the same position. Who writes what is a
// function of names, shapes and the numbers of ranks and shards.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_CHECKPOINT_TRAIN_STATE_H_
#define WORKER_TRAINER_CHECKPOINT_TRAIN_STATE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/core/lanes.h"
#include "common/core/slice.h"
#include "worker/trainer/checkpoint/shard_saver.h"
#include "worker/trainer/checkpoint/state_reader.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// The state of all random number generators of this process that models use on a device.
class RandomNumbers {
 public:
  // Saves the current state.
  explicit RandomNumbers(at::Device device);
  // Restores the saved state.
  void Restore() const;
  // The saved state: byte tensors on the host, equally many for devices of the same kind.
  std::vector<at::Tensor> tensors() const;

 private:
  const at::Device device_;
  const at::Tensor cpu_;
  const at::Tensor device_state_;  // Undefined for a CPU.
};

struct StateTensor {
  std::string name;   // Without the rank's prefix.
  at::Tensor tensor;  // Detached; shares the memory of the original, if it has one.
  bool own = false;
  bool at_once = false;  // The next forward pass may change it.
  bool again = false;    // Under a further name: written but not read.
  // Where `tensor` is what this rank has of a sharded one.
  std::optional<Slice> slice = {};
};

// Collects all state but the strategy's. Order and shapes are equal on all ranks. `one_optimizer`:
// the optimizer's state is now equal on all ranks, though the strategy allows differences.
// `attachments`: null if there are none; so below.
std::vector<StateTensor> CollectState(const TrainerConfig& config, const ModelTensors& model,
                                      const Optimizer& optimizer, const Attachments* attachments,
                                      bool one_optimizer = false);

// Puts `common`, one for each of `parameters` or none at all, in their place in `state`, under all
// of their names.
void ReplaceParameters(const std::vector<NamedTensor>& parameters,
                       const std::vector<at::Tensor>& common, std::vector<StateTensor>* state);

// A rank's part of a checkpoint.
struct StatePart {
  std::vector<ShardEntry> entries;
  std::vector<ShardEntry> at_once;

  int64_t bytes() const;  // Of all entries.
};
StatePart PartOfRank(const std::vector<StateTensor>& state, int rank, int ranks,
                     const Lanes& lanes = {});

// Reads all state but the strategy's; errors as for StateReader::Read.
absl::Status RestoreState(StateReader& reader, const TrainerConfig& config,
                          const ModelTensors& model, const Optimizer& optimizer,
                          Attachments* attachments);

// The order in which gradients become ready, of a workload that cannot find it out by a dry step.
StateTensor OrderTensor(const std::vector<int64_t>& order);
// Empty: the checkpoint has none for so many parameters. Errors as for StateReader::Read.
absl::StatusOr<std::vector<int64_t>> RestoreOrder(StateReader& reader, size_t parameters);

// Turns an error of RestoreState and its like into one for people. FailedPrecondition: the
// checkpoint itself is bad and will be at the next start; Internal: the error may be temporary.
absl::Status RestoreError(const std::string& directory, const absl::Status& status);

// Reads the strategy's state if `ladder` and the number of ranks are the same; else leaves it.
absl::Status RestoreStrategyState(StateReader& reader, const TrainerConfig& config,
                                  const std::string& ladder, const std::vector<NamedTensor>& state);

// Reads the momentum of the last level's outer step (Strategy::OuterMomentum), whatever the ladder
// and the numbers of ranks and shards were; leaves it if the checkpoint has none.
absl::Status RestoreMomentum(StateReader& reader, const std::vector<NamedTensor>& momentum);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_TRAIN_STATE_H_
