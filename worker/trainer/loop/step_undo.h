// Takes back a step that did not come to its end.
//
// Until the update of the parameters a step changes buffers of the model and the random numbers
// (and the position in the data, which the caller keeps). They are copied before each step: some
// microseconds for a small state.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_LOOP_STEP_UNDO_H_
#define WORKER_TRAINER_LOOP_STEP_UNDO_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/model/model.h"

namespace paceline {

class StepUndo {
 public:
  // `model` outlives this.
  explicit StepUndo(const Model& model);

  // Before a step.
  void Keep();

  // Puts back what was kept last, and drops the gradients. Requires: Keep was called.
  void Undo() const;

 private:
  const Model& model_;
  std::vector<at::Tensor> buffers_;  // Those that may change,
  std::vector<at::Tensor> kept_;     // and what they were.
  std::optional<RandomNumbers> random_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_STEP_UNDO_H_
