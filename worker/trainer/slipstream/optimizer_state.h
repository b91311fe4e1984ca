// The mean of the optimizer's state over the ranks that add theirs to a round.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_SLIPSTREAM_OPTIMIZER_STATE_H_
#define WORKER_TRAINER_SLIPSTREAM_OPTIMIZER_STATE_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/trainer/loop/optimizer.h"

namespace paceline {

class OptimizerState {
 public:
  // `optimizer` outlives this.
  explicit OptimizerState(const Optimizer& optimizer) : optimizer_(optimizer) {}

  // A flat float32 buffer with all slots and step counts, or with zeros. It is this object's.
  at::Tensor Fill(bool has_state);

  // After the sum over all ranks: the mean of the `ranks` that have added theirs. Step counts
  // become whole numbers.
  void Apply(int ranks);

 private:
  const Optimizer& optimizer_;
  at::Tensor flat_;  // Made when it is first needed.
  std::vector<at::Tensor> views_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_OPTIMIZER_STATE_H_
