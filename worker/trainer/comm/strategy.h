// How the ranks of a job keep their parameters together: the mean of gradients in the
// backward pass (gradient_mean.h), and the means of parameters after the optimizer's step
// (model_averager.h), by a plan that may change while the job trains (docs/hsgd.md).
//
// A new plan is prepared in the background: its communicators are built beside those in use.
// At each step that the top level's period divides (in the warm-up too), all ranks learn in
// the exchange that takes place there anyway whether every one of them is ready, and take the
// plan up at the same step.
//
// Thread-compatible but for Prepare. Torch's exceptions pass through; a failed collective is
// a CollectiveError.
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
#include "worker/trainer/comm/int8_mean.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/meeting.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// What the exchange after one step amounted to.
struct StepExchange {
  int group_size = 0;           // Over which parameters were averaged; 0: not at this step.
  bool all_equal = false;       // All ranks have the same parameters now.
  int64_t bytes = 0;            // Sent by this rank in the step, gradients included.
  int gradient_group_size = 1;  // Ranks that shared the step's gradients.
  // Of the loss that was passed, over all ranks: a float scalar on the device; undefined unless
  // all ranks exchanged something.
  at::Tensor mean_loss;
};

// What a rank's exchanges have to remember from one generation to the next.
struct StrategyMemory {
  // Of a level that sends int8 (int8_mean.h); undefined for others.
  struct Level {
    at::Tensor reference;
    int64_t reference_number = 0;
    Int8Mean::Residuals residuals;
    // When an exchange was cut off: as they were before it.
    std::optional<Int8Mean::Residuals> before;
  };

  std::vector<int64_t> gradient_order;  // gradient_mean.h
  bool all_equal = true;
  at::Tensor mean;            // ModelAverager::latest
  int64_t mean_step = -1;     // Steps done when it was taken.
  std::vector<Level> levels;  // Of the plan that was active.
  RankRange equal;            // These ranks, with this one, have become equal since.
  std::map<std::pair<int, bool>, LevelFigures> figures;  // Strategy::figures
};

// How a strategy begins.
struct StrategyStart {
  std::shared_ptr<const BuiltPlan> plan;
  int64_t step = 0;  // The first one.
  // The ranks have trained before: none is given the parameters of rank 0.
  bool resumes = false;
  StrategyMemory memory;    // Of the same plan, if it has levels.
  int64_t alone_below = 0;  // Steps below it are made without exchanges (core/meeting.h).
  // The groups are others than those of the memory. Members of a group that sends int8 then have no
  // vector in common, and without levels nothing would make ranks equal, so that all take the mean
  // of all parameters before the first exchange.
  bool regrouped = false;
};

class Strategy {
 public:
  // Collective, unless it resumes: compares the parameters' shapes over the ranks and gives all of
  // them those of rank 0. `groups`, `control` and what `state` refers to outlive this. `parameters`
  // are used in no backward pass after it. `state`: the optimizer's tensors, which are averaged
  // with the parameters if the configuration says so, or the plan has no levels any more; asked for
  // at each average.
  Strategy(Groups& groups, const TrainerConfig& config, StrategyStart start,
           const std::vector<NamedTensor>& parameters,
           std::function<std::vector<at::Tensor>()> state, Control& control);
  ~Strategy();

  // Before each forward pass of `step`; `last`: the step's last one, after whose backward pass
  // gradients are exchanged.
  void BeginForward(int64_t step, bool last);

  // Adds the gradients of `loss` to those of the parameters. `on_computed` is called once, when
  // they are computed and only the rest of the exchange is waited for.
  void Backward(const at::Tensor& loss, const std::function<void()>& on_computed);

  // After the optimizer's step `step` (0-based, counted also if the optimizer left it out).
  // `loss`: of this rank, undefined if it is not worth a mean. `on_average` is called
  // before parameters are averaged.
  StepExchange AfterStep(int64_t step, const at::Tensor& loss,
                         const std::function<void()>& on_average);

  // Makes the parameters of all ranks equal, if the last step did not. Collective.
  void AverageAll();

  // Any thread. A plan whose epoch is not above those known is ignored. Control is told when
  // the plan is prepared and when it is active.
  void Prepare(const TrainingPlan& plan);

  // What takes part with this rank in the mean of the gradients of `step`, and in the exchange
  // after it, in ranks; the latter is empty when there is none.
  RankRange GradientGroupAt(int64_t step) const;
  RankRange ExchangeAt(int64_t step) const;

  // The mean of all that has to be taken first is still to come.
  bool is_regrouping() const;

  // For the strategy of the next generation; also after an exchange that failed.
  StrategyMemory Memory() const;

  // What has to be kept besides the parameters for training to go on exactly: each rank's own
  // tensors, by name, as long as the present plan is active.
  std::vector<NamedTensor> State() const;
  // The active one; its ladder is like "2:2,8:8".
  const TrainingPlan& plan() const;
  std::string ladder() const;

  // Without seconds, which the step records tell.
  std::vector<LevelFigures> figures() const;
  double drift() const;  // Norm of the latest change by a mean over all ranks.

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STRATEGY_H_
