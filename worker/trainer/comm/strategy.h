// Keeps the parameters of a job's ranks together: averages gradients in the backward pass
// (gradient_mean.h) and parameters after the optimizer's step (model_averager.h), by a plan that
// may change during the training (docs/hsgd.md).
//
// A new plan's communicators are built in the background, beside those in use. At each step
// divisible by the top level's period (also in the warm-up), the regular exchange tells all ranks
// whether every one of them is ready. If so, all take up the plan at the same step. With a streamed
// level (streamed_average.h) this goes along with its averages.
//
// Thread-compatible, except Prepare. Torch's exceptions pass through; a failed collective is a
// CollectiveError.
#ifndef WORKER_TRAINER_COMM_STRATEGY_H_
#define WORKER_TRAINER_COMM_STRATEGY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/level_states.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/rendezvous.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Facts about the exchange after one step.
struct StepExchange {
  int group_size = 0;      // Ranks over which parameters were averaged; 0: none.
  bool all_equal = false;  // All ranks have the same parameters now.
  // A streamed average was taken up: none is under way, and the ranks have CommonParameters.
  bool takes_average_up = false;
  int64_t bytes = 0;            // Sent by this rank in this step, gradients included.
  int gradient_group_size = 1;  // Ranks that shared the step's gradients.
  // Mean of the passed loss over all ranks: a float scalar on the device. Undefined unless all
  // ranks exchanged something. With a streamed average, of the step after which that began.
  at::Tensor mean_loss;
};

// What a rank's exchanges keep from one generation to the next.
struct StrategyMemory {
  using Level = LevelMemory;

  std::vector<int64_t> gradient_order;  // gradient_mean.h
  bool all_equal = true;
  at::Tensor mean;            // ModelAverager::latest
  int64_t mean_step = -1;     // Steps done at that mean.
  int mean_outer = -1;        // The level whose outer step it ended in; -1: none.
  at::Tensor mean_momentum;   // The momentum after that outer step.
  std::vector<Level> levels;  // Of the plan that was active.
  RankRange equal;            // Ranks that have become equal to this one since.
  // What quantised gradients have still to send (quantized_gradients.h) unless the latest step is
  // repeated; undefined without.
  at::Tensor gradient_rest;
  at::Tensor gradient_rest_before;  // If it is; undefined if it has sent nothing.
  std::map<std::pair<int, bool>, LevelFigures> figures;  // Strategy::figures
};

// The state with which a strategy begins.
struct StrategyStart {
  std::shared_ptr<const BuiltPlan> plan;
  int64_t step = 0;  // The first step.
  // The ranks have trained before: they do not copy rank 0's parameters.
  bool resumes = false;
  StrategyMemory memory;    // From the same plan, if it has levels, or `regrouped`.
  int64_t alone_below = 0;  // Earlier steps make no exchanges (core/rendezvous.h).
  // The groups differ from the memory's, of whose levels only the last one's momentum counts.
  // Members of a group with quantised means or outer steps then have no common vector, and without
  // levels nothing would make ranks equal, so the first exchange is preceded by a mean of all
  // parameters, and of that momentum, over all ranks.
  bool regrouped = false;
  // With shards: called in an exchange when this rank has its result, and when it has applied it;
  // the latter also without shards, if the exchange ended in an outer step, which must not be
  // repeated.
  std::function<void()> on_prepared = {};
  std::function<void()> on_applied = {};
  // As for GradientMean.
  std::function<void(Group*)> on_gradient_group = {};
  // As for ModelAverager; equal on all ranks, unless it resumes.
  std::vector<at::Tensor> compensation = {};
};

class Strategy {
 public:
  // Collective, unless it resumes: checks that all ranks' parameters have the same shapes and
  // copies rank 0's to all. `groups`, `control` and whatever `state` refers to must outlive this.
  // `parameters` can be used in no backward pass after it. `state` returns the optimizer's tensors,
  // which are averaged with the parameters if the configuration says so or the plan no longer has
  // levels; it is called at each average.
  Strategy(Groups& groups, const TrainerConfig& config, StrategyStart start,
           const std::vector<NamedTensor>& parameters,
           std::function<std::vector<at::Tensor>()> state, Control& control);
  ~Strategy();

  // Call before each forward pass of `step`. `last`: the step's last pass, after whose backward
  // pass gradients are exchanged.
  void BeginForward(int64_t step, bool last);

  // Adds the gradients of `loss` to those of the parameters. Calls `on_computed` once, when they
  // are computed and only the exchange is awaited.
  void Backward(const at::Tensor& loss, const std::function<void()>& on_computed);

  // The ranks that share gradients in the pass that BeginForward has begun; null: none does.
  Group* gradient_group() const;

  // With shards, between the exchange of `step`'s gradients and the optimizer: as StepWord::Give.
  double GiveWord(int64_t step, double squares);

  // Call after the optimizer's step `step` (0-based; skipped updates count). `loss` is this rank's,
  // or undefined when it needs no mean. `on_average` is called before parameters are averaged.
  StepExchange AfterStep(int64_t step, const at::Tensor& loss,
                         const std::function<void()>& on_average);

  // Makes all ranks' parameters equal, unless the last step did. Collective. Nothing is made of a
  // streamed average that is under way.
  void AverageAll();

  // Any thread. Ignores a plan whose version is not above all those known. Tells Control when the
  // plan is prepared and when it is active.
  void Prepare(const TrainingPlan& plan);

  // The ranks that share the gradients of `step` with this one, and those of the exchange after it;
  // the latter is empty if there is none. With shards: all ranks of these replicas.
  RankRange GradientGroupAt(int64_t step) const;
  RankRange ExchangeAt(int64_t step) const;

  // Whether the mean over all ranks that must come first is still to be taken.
  bool is_regrouping() const;
  // Whether the next BeginForward may change parameters.
  bool changes_first() const;
  // Whether a streamed average is under way: it is waited for in a later step.
  bool is_averaging() const;

  // For the strategy of the next generation; also valid after a failed exchange.
  StrategyMemory Memory() const;

  // This rank's own tensors, by name, that must be saved besides the parameters for training to
  // continue exactly. Valid until the next exchange.
  std::vector<NamedTensor> State() const;
  // The parameters that all ranks have in common where each has others of its own, which are then
  // in State: those of a streamed level, in the order of the parameters. Empty otherwise: all ranks
  // are equal, or must become so first. Valid like State.
  std::vector<at::Tensor> CommonParameters() const;
  // Likewise the momentum of the last level's outer step, one tensor for each parameter: equal on
  // all ranks, or with shards slices as the parameters are. Empty without.
  std::vector<NamedTensor> OuterMomentum() const;
  // The active plan; its ladder is like "2:2,8:8".
  const TrainingPlan& plan() const;
  std::string ladder() const;

  // Without seconds, which are in the step records.
  std::vector<LevelFigures> figures() const;
  double drift() const;  // Norm of the latest change by a mean of all ranks.

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STRATEGY_H_
