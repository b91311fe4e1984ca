// Undoes a step that was not completed.
//
// Before it updates the parameters, a step changes the model's buffers, the random numbers, and
// some of what is attached (and the position in the data, which the caller keeps). These are copied
// before each step, which takes some microseconds for a small state.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_LOOP_STEP_UNDO_H_
#define WORKER_TRAINER_LOOP_STEP_UNDO_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

class StepUndo {
 public:
  // Both must outlive this. `attachments`: null if there are none.
  explicit StepUndo(const ModelTensors& model, Attachments* attachments = nullptr);

  // Copies the state. Call it before a step.
  void Keep();

  // Restores the last copy and drops the gradients. Requires: Keep was called.
  void Undo() const;

 private:
  const ModelTensors& model_;
  Attachments* const attachments_;
  std::vector<at::Tensor> buffers_;  // Those that may change.
  std::vector<at::Tensor> kept_;     // Their copies.
  std::optional<RandomNumbers> random_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_STEP_UNDO_H_
