// A rank's own computation in a step: batches, loss and gradients, and the parameter update. The
// strategy keeps the ranks together; it takes part through hooks.
//
// Reports each phase to the step ring, and makes the intentional disturbances.
#ifndef WORKER_TRAINER_LOOP_LOCAL_STEP_H_
#define WORKER_TRAINER_LOOP_LOCAL_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/loop/fault.h"
#include "worker/trainer/loop/gradients.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// Thread-compatible. Torch's exceptions pass through.
class LocalStep {
 public:
  // All of these must outlive this object.
  struct Parts {
    const TrainerConfig& config;
    const Dataset& data;
    Model& model;
    Optimizer& optimizer;
    Platform& platform;
    StepTimer& timer;
    // Called before parameters or optimizer state change.
    std::function<void()> before_change;
  };

  // The strategy's part in a step's passes. Unused when the step is a device graph.
  struct Hooks {
    std::function<void()> before_pass;  // An exception from it ends the step.
    std::function<void(bool last)> begin_forward;
    // Adds the gradients of `loss` to those of the parameters; calls `on_computed` once, when they
    // are computed.
    std::function<void(const at::Tensor& loss, const std::function<void()>& on_computed)> backward;
    // Called when this rank's gradients of all passes are computed; the exchange may still be under
    // way. Called on the thread that runs the backward pass.
    std::function<void()> on_gradients;
  };

  explicit LocalStep(const Parts& parts);

  // Takes batches of this member from `position` on. Does nothing if that is already so.
  void OpenData(const Member& member, const DataPosition& position);
  // The position behind the batches taken. Requires: OpenData.
  DataPosition position() const { return loader_->position(); }

  // Begins a step: resets `result` to a new step with this number and learning rate.
  void Begin(int64_t number, double learning_rate, StepResult* result);

  // Does the rest of the step. Counts the data and sets loss and norm of the gradients in `result`;
  // returns the norms before clipping. `step` selects disturbances. DataLoss: the data could not be
  // read. Throws c10::ValueError when a parameter has no part in the loss, unless the model may
  // have unused ones.
  absl::StatusOr<GradientNorms> Update(int64_t step, const Hooks& hooks, StepResult* result);
  // Like Update without the update: the gradients stay, unclipped, until the next step, and are
  // zero where there would be none. Requires: steps are not device graphs.
  absl::StatusOr<GradientNorms> MakeGradients(int64_t step, const Hooks& hooks, StepResult* result);

 private:
  absl::Status RunPasses(int64_t step, const Hooks& hooks, StepResult* result);
  // Does the step as one graph. Requires: graph_.
  absl::StatusOr<GradientNorms> Replay(int64_t step, StepResult* result);
  // Loads data for one forward pass and counts it in `result`.
  absl::StatusOr<Batch> NextBatch(StepResult* result);
  at::Tensor Loss(const Batch& batch);
  // Checks that every parameter has a gradient.
  void CheckGradients() const;
  // Clips the gradients; returns the norms before.
  GradientNorms ClipToLimit();
  // Has the optimizer apply and drop the gradients; skips those not finite unless they are allowed.
  void Apply(const GradientNorms& norms);

  const Parts parts_;
  const TrainerConfig& config_;
  const std::vector<at::Tensor> parameters_;
  const at::Tensor learning_rate_;  // Of the current step, on the device.
  Chaos chaos_;
  Member data_as_;  // How data is taken now.
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<StepGraph> graph_;
  Batch graph_batch_;      // The graph's input
  at::Tensor graph_loss_;  // and output.
  GradientNorms graph_norms_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_LOCAL_STEP_H_
