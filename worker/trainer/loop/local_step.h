// The engine's part in a rank's own computation of a step. Whoever makes the step calls it:
//
//   Begin ─▶ for each pass: BeginPass, [next batch], BeginForward, [loss], Backward
//         ─▶ BeforeUpdate ─▶ [optimizer]
//
// The strategy keeps the ranks together; it takes part through hooks. Reports each phase to the
// step ring, and makes the intentional disturbances.
#ifndef WORKER_TRAINER_LOOP_LOCAL_STEP_H_
#define WORKER_TRAINER_LOOP_LOCAL_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "worker/ring/step_ring.h"
#include "worker/trainer/config.h"
#include "worker/trainer/loop/fault.h"
#include "worker/trainer/loop/gradients.h"
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace paceline {

// Thread-compatible. Torch's exceptions pass through.
class LocalStep {
 public:
  // All of these must outlive this object.
  struct Parts {
    const TrainerConfig& config;
    const ModelTensors& model;
    StepTimer& timer;
    // Called before parameters or optimizer state change.
    std::function<void()> before_change;
  };

  // The strategy's part in a step's passes. All but `before_pass` are unused when the step is a
  // device graph.
  struct Hooks {
    std::function<void()> before_pass;  // An exception from it ends the step.
    std::function<void(bool last)> begin_forward;
    // Adds the gradients of `loss` to those of the parameters; calls `on_computed` once, when they
    // are computed.
    std::function<void(const at::Tensor& loss, const std::function<void()>& on_computed)> backward;
    // Called when this rank's gradients of all passes are computed; the exchange may still be under
    // way. Called on the thread that runs the backward pass.
    std::function<void()> on_gradients;
    // With shards: called when the mean of the gradients is whole, before anything is updated.
    // `squares`: the sum of their squares. Returns the norm of the whole model's gradients, which
    // are clipped to `max_norm` then. After an exception from it, the gradients are unchanged.
    std::function<double(double squares, double max_norm)> on_prepared = {};
  };

  struct Order {
    int64_t number = 0;        // Of its record.
    int64_t disturbed_as = 0;  // Selects the disturbances.
    double learning_rate = 0;  // For the record.
    int64_t passes = 1;
    // False: the gradients stay, unclipped, until the next step, and are zero where there would be
    // none.
    bool updates = true;
  };

  // What a batch counts for, as in Batch.
  struct Counted {
    int64_t samples = 0;
    int64_t tokens = 0;
    double workload = 0;
  };

  LocalStep(const Parts& parts, Hooks hooks);

  // Begins a step: resets `result`, and drops the gradients that the last one left.
  void Begin(const Order& order, StepResult* result);

  // Begins a pass, which waits for its batch.
  void BeginPass();
  void BeginForward(const Counted& batch);
  // The backward pass of the batch's mean loss, and, in the step's last pass, the exchange.
  // `shown`: what the record has as the loss, if that is another. Throws c10::ValueError as
  // RequireGradients.
  void Backward(at::Tensor loss, at::Tensor shown = {});

  // After the last pass: the optimizer is next. Clips the gradients to this norm, or to the
  // configuration's if there is none; 0: never. Returns a float scalar on the
  // device: unless it is 0, the optimizer must leave parameters and state unchanged; undefined: it
  // must not. Throws c10::ValueError when a parameter has no part in the loss, unless the model may
  // have unused ones.
  at::Tensor BeforeUpdate(std::optional<double> max_norm = std::nullopt);

  // Where the optimizer updates within the backward pass (BackwardUpdates): in the place of
  // BeforeUpdate, before that pass and after it. `norms`: of its gradients.
  void BeforeBackwardUpdates() { parts_.before_change(); }
  void AfterBackwardUpdates(GradientNorms norms);

  // In a step: the caller waits for other ranks in a collective of its own, or goes on.
  void ShowWait(bool waits) {
    parts_.timer.Enter(waits ? Phase::kCommunication : phase_, order_.number);
  }

  // Of all gradients of the step, before clipping.
  const GradientNorms& norms() const { return norms_; }

  // For a step that is one device graph: in the place of BeginForward, and of Backward and
  // BeforeUpdate. The graph contains these three.
  void BeginReplay(const Counted& batch);
  void EndReplay(const at::Tensor& loss, GradientNorms norms);
  void CheckGradients() const;
  GradientNorms ClipToLimit(std::optional<double> max_norm = std::nullopt) const;
  at::Tensor SkipFor(const GradientNorms& norms) const;

 private:
  void Enter(Phase phase);
  // As ClipToLimit, with the norm of the whole model's gradients.
  GradientNorms ClipTogether(std::optional<double> max_norm);
  void Count(const Counted& batch);
  bool is_last_pass() const { return pass_ == order_.passes; }

  const Parts parts_;
  const TrainerConfig& config_;
  const Hooks hooks_;
  const std::vector<at::Tensor> parameters_;
  Chaos chaos_;

  // Of the step under way.
  Order order_;
  StepResult* result_ = nullptr;
  int64_t pass_ = 0;            // 1-based.
  Phase phase_ = Phase::kIdle;  // That was entered last.
  bool nan_loss_ = false;
  GradientNorms norms_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_LOCAL_STEP_H_
