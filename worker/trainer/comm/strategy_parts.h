// The internals of a Strategy.
#ifndef WORKER_TRAINER_COMM_STRATEGY_PARTS_H_
#define WORKER_TRAINER_COMM_STRATEGY_PARTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/core/lanes.h"
#include "worker/trainer/comm/gradient_mean.h"
#include "worker/trainer/comm/level_states.h"
#include "worker/trainer/comm/model_averager.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/comm/plan_progress.h"
#include "worker/trainer/comm/quantized_gradients.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/comm/streamed_average.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/averaging_schedule.h"
#include "worker/trainer/core/rendezvous.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Without levels all ranks are equal after each step. This is how often they look for a new plan.
inline constexpr int64_t kStepsPerLook = 8;

struct Strategy::Parts {
  Parts(Groups& groups, const TrainerConfig& config, StrategyStart start,
        const std::vector<NamedTensor>& parameters, std::function<std::vector<at::Tensor>()> state,
        Control& control);

  bool ddp() const { return config.strategy.kind == StrategyConfig::Kind::kDdp; }
  bool has_levels() const { return !active->plan.levels.empty(); }
  // Whether gradients are averaged over all ranks.
  bool IsSynchronous(int64_t step) const {
    return !has_levels() || step < config.strategy.warmup_steps;
  }

  // Those with which this rank averages when all replicas do.
  Group& all() { return active->shards.has_value() ? *active->shards->lane : groups.all(); }
  at::Device device() const { return parameters.front().tensor.device(); }
  int replicas() const { return config.member.lanes().ReplicasIn(config.member.world_size); }
  // All ranks of the replicas in which `group` is this rank's lane.
  RankRange RangeOf(const Group& group) const {
    const Lanes lanes = config.member.lanes();
    return {lanes.RankOf(lanes.ReplicaOf(group.ranks().front()), 0), group.size() * lanes.shards};
  }

  // Null when this rank averages with nobody.
  Group* GradientGroup(int64_t step) {
    if (step < alone_below) return nullptr;
    return IsSynchronous(step) ? &all() : active->gradients.get();
  }
  // With shards: the ranks that must all be prepared for a step.
  Group& WordGroup(int64_t step) {
    const ShardGroups& shards = *active->shards;
    if (IsSynchronous(step) && step >= alone_below) return *shards.all_word;
    return step < alone_below ? *shards.replica_word : *shards.gradients_word;
  }
  std::optional<int> LevelAt(int64_t step) const {
    return step < alone_below ? std::nullopt : schedule.LevelAt(step);
  }
  bool IsBoundary(int64_t step) const {
    if (step < alone_below || ddp()) return false;
    return has_levels() ? schedule.IsBoundary(step) : step % kStepsPerLook == 0;
  }
  // Whether averages of the step go by `stream`.
  bool IsStreamed(int64_t step) const {
    return stream != nullptr && !IsSynchronous(step) && step >= alone_below;
  }
  std::vector<at::Tensor> AveragedState() const;
  // Averages over the group of `level`, or over all ranks.
  void Average(std::optional<int> level, at::Tensor riders);
  // With shards, in the exchange of `word`'s ranks: says that this rank has its result, and sums
  // `riders` (if defined) over them. When it returns, all have theirs.
  void GiveExchangeWord(Group& word, const at::Tensor& riders);
  // The momentum of the last level, over all ranks.
  void AverageMomentum();
  // `next`: a newer plan that this rank has prepared, or null.
  void AfterStreamedStep(int64_t step, const at::Tensor& loss,
                         const std::shared_ptr<const BuiltPlan>& next,
                         const std::function<void()>& on_average, StepExchange* result);
  // The same before `step`, for the one before it, in case an earlier generation was cut off in it.
  void CatchUp(int64_t step);
  // The newest plan that this rank has prepared, if it is newer than the active one.
  std::shared_ptr<const BuiltPlan> NewerPlan() const {
    std::shared_ptr<const BuiltPlan> next = builder.newest();
    return next != nullptr && next->plan.version > active->plan.version ? next : nullptr;
  }
  // Takes it up if all ranks do. `sums`: of their riders. `next`: null if this rank has none.
  void TakeUpIfReady(const std::shared_ptr<const BuiltPlan>& next, const at::Tensor& sums,
                     int64_t first_step);
  void TakeUp(std::shared_ptr<const BuiltPlan> next, int64_t first_step);
  void Count(bool gradients, int group_size, int64_t bytes);

  Groups& groups;
  const TrainerConfig& config;
  const std::function<std::vector<at::Tensor>()> state;
  const int64_t alone_below;
  const int64_t first_step;
  const std::vector<NamedTensor> parameters;
  std::shared_ptr<const BuiltPlan> active;  // Declared before those that use its groups.
  const std::unique_ptr<QuantizedGradients> quantized_gradients;  // Null: they travel otherwise.
  GradientMean gradients;
  ModelAverager averager;

  AveragingSchedule schedule;
  // Of the active plan. Also set when all ranks are equal: when it is taken up, and at the end of
  // the warm-up.
  LevelStates levels;
  std::unique_ptr<StreamedAverage> stream;  // Null: the active plan has no streamed level.
  bool catches_up = false;                  // CatchUp is still to come.
  bool synchronous = true;                  // IsSynchronous() of the latest step.
  // The next step begins with a mean over all ranks: groups are new, or the plan no longer has
  // levels, so that nothing else would make ranks equal.
  bool regroups = false;
  bool all_equal = true;  // At the moment.
  int64_t steps_done = 0;
  int64_t mean_step = -1;                                // StrategyMemory::mean_step
  int mean_outer = -1;                                   // StrategyMemory::mean_outer
  bool gradients_due = false;                            // In the current backward pass.
  int64_t bytes = 0;                                     // Sent in the current step.
  std::map<std::pair<int, bool>, LevelFigures> figures;  // By size and whether of gradients.

  PlanProgress progress;
  const std::function<void()> on_prepared;  // As in StrategyStart.
  const std::function<void()> on_applied;
  PlanBuilder builder;  // Last, since its thread uses the others.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STRATEGY_PARTS_H_
