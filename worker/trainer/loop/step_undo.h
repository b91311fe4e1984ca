// Undoes a step that was not completed.
//
// Before it updates the parameters, a step changes the model's buffers and the random numbers (and
// the position in the data, which the caller keeps). These are copied before each step, which takes
// some microseconds for a small state.
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
  // `model` must outlive this.
  explicit StepUndo(const Model& model);

  // Copies the state. Call it before a step.
  void Keep();

  // Restores the last copy and drops the gradients. Requires: Keep was called.
  void Undo() const;

 private:
  const Model& model_;
  std::vector<at::Tensor> buffers_;  // Those that may change.
  std::vector<at::Tensor> kept_;     // Their copies.
  std::optional<RandomNumbers> random_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_STEP_UNDO_H_
