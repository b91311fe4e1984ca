// Averages the optimizer's state over the ranks that contribute theirs to a round.
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
  // `optimizer` must outlive this.
  explicit OptimizerState(const Optimizer& optimizer) : optimizer_(optimizer) {}

  // Fills this object's flat float32 buffer with all slots and step counts, or with zeros.
  at::Tensor Fill(bool has_state);

  // Call after the sum over all ranks: takes the mean of the `ranks` that contributed, with step
  // counts rounded to whole numbers.
  void Apply(int ranks);

 private:
  const Optimizer& optimizer_;
  at::Tensor flat_;  // Allocated when first needed.
  std::vector<at::Tensor> views_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_OPTIMIZER_STATE_H_
