// What a rank computes by itself in a step: its batches, their loss and gradients, the update of
// the parameters. How the ranks keep together is the strategy's affair, which takes part by hooks.
//
// The step ring is told of each phase, and disturbances on purpose happen here.
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
  // All of it outlives this.
  struct Parts {
    const TrainerConfig& config;
    const Dataset& data;
    Model& model;
    Optimizer& optimizer;
    Platform& platform;
    StepTimer& timer;
    // Before parameters or the optimizer's state change.
    std::function<void()> before_change;
  };

  // The strategy's part in the passes of a step. A step as one graph of the device has none.
  struct Hooks {
    std::function<void()> before_pass;  // What it throws ends the step.
    std::function<void(bool last)> begin_forward;
    // Adds the gradients of `loss` to those of the parameters; calls `on_computed` once, when they
    // are computed.
    std::function<void(const at::Tensor& loss, const std::function<void()>& on_computed)> backward;
    // This rank's gradients are computed, in all passes; the exchange may be still under way. From
    // the thread that runs the backward pass.
    std::function<void()> on_gradients;
  };

  explicit LocalStep(const Parts& parts);

  // From now on batches are those of this member from `position` on. Nothing changes when they are
  // already.
  void OpenData(const Member& member, const DataPosition& position);
  // Behind the batches taken. Requires: OpenData.
  DataPosition position() const { return loader_->position(); }

  // A step begins: `result` is that of a new step with this number and learning rate.
  void Begin(int64_t number, double learning_rate, StepResult* result);

  // The rest of it. Counts the data and sets loss and norm of the gradients in `result`; returns
  // the norms before clipping. `step`: for disturbances. DataLoss: the data could not be read.
  // Throws c10::ValueError when a parameter takes no part in the loss, unless the model may have
  // unused ones.
  absl::StatusOr<GradientNorms> Update(int64_t step, const Hooks& hooks, StepResult* result);
  // The same without the update: the gradients stay as they are, not clipped, until the next step;
  // zero where there would be none.
  // Requires: steps are no graphs of the device.
  absl::StatusOr<GradientNorms> MakeGradients(int64_t step, const Hooks& hooks, StepResult* result);

 private:
  absl::Status RunPasses(int64_t step, const Hooks& hooks, StepResult* result);
  // The step as one graph. Requires: graph_.
  absl::StatusOr<GradientNorms> Replay(int64_t step, StepResult* result);
  // Data for one forward pass, counted in `result`.
  absl::StatusOr<Batch> NextBatch(StepResult* result);
  at::Tensor Loss(const Batch& batch);
  // Every parameter has a gradient.
  void CheckGradients() const;
  // The norms before it.
  GradientNorms ClipToLimit();
  // By the optimizer, which drops the gradients; unless they are not finite and may not be taken.
  void Apply(const GradientNorms& norms);

  const Parts parts_;
  const TrainerConfig& config_;
  const std::vector<at::Tensor> parameters_;
  const at::Tensor learning_rate_;  // Of the present step, on the device.
  Chaos chaos_;
  Member data_as_;  // How data is taken now.
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<StepGraph> graph_;
  Batch graph_batch_;      // What the graph reads
  at::Tensor graph_loss_;  // and writes.
  GradientNorms graph_norms_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_LOCAL_STEP_H_
