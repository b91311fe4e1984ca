#include "worker/trainer/comm/strategy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/lanes.h"
#include "common/log.h"
#include "worker/trainer/comm/gradient_mean.h"
#include "worker/trainer/comm/level_states.h"
#include "worker/trainer/comm/make_equal.h"
#include "worker/trainer/comm/model_averager.h"
#include "worker/trainer/comm/outer_step.h"
#include "worker/trainer/comm/plan_progress.h"
#include "worker/trainer/comm/quantized_gradients.h"
#include "worker/trainer/comm/quantized_mean.h"
#include "worker/trainer/comm/step_word.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/core/averaging_schedule.h"

namespace paceline {
namespace {

// Values summed along with a mean over all ranks.
enum Rider { kReady, kLoss, kLosses, kRiders };

// Without levels all ranks are equal after each step. This is how often they look for a new plan.
constexpr int64_t kStepsPerLook = 8;

AveragingSchedule ScheduleOf(const TrainingPlan& plan, const StrategyConfig& strategy) {
  AveragingSchedule schedule;
  schedule.kind = strategy.kind == StrategyConfig::Kind::kLocalSgd
                      ? AveragingSchedule::Kind::kPeriodic
                      : AveragingSchedule::Kind::kHierarchical;
  for (const PlanLevel& level : plan.levels) schedule.periods.push_back(level.period);
  schedule.warmup_steps = strategy.warmup_steps;
  return schedule;
}

}  // namespace

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
  std::vector<at::Tensor> AveragedState() const;
  // Averages over the group of `level`, or over all ranks.
  void Average(std::optional<int> level, at::Tensor riders);
  // With shards, in the exchange of `word`'s ranks: says that this rank has its result, and sums
  // `riders` (if defined) over them. When it returns, all have theirs.
  void GiveExchangeWord(Group& word, const at::Tensor& riders);
  // The momentum of the last level, over all ranks.
  void AverageMomentum();
  bool AllPrepared(const BuiltPlan& next);
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
  at::Tensor riders;

  AveragingSchedule schedule;
  // Of the active plan. Also set when all ranks are equal: when it is taken up, and at the end of
  // the warm-up.
  LevelStates levels;
  bool synchronous = true;  // IsSynchronous() of the latest step.
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

Strategy::Parts::Parts(Groups& groups_in, const TrainerConfig& config_in, StrategyStart start,
                       const std::vector<NamedTensor>& parameters_in,
                       std::function<std::vector<at::Tensor>()> state_in, Control& control_in)
    : groups(groups_in),
      config(config_in),
      state(std::move(state_in)),
      alone_below(start.alone_below),
      first_step(start.step),
      parameters(parameters_in),
      quantized_gradients(QuantizedGradients::Make(groups.row_codec(), config.gradient_format,
                                                   TensorsOf(parameters),
                                                   start.memory.gradient_rest)),
      gradients(parameters, config.gradient_format, config.model.unused_parameters,
                std::move(start.memory.gradient_order), std::move(start.on_gradient_group),
                quantized_gradients.get()),
      averager(TensorsOf(parameters), std::move(start.compensation)),
      riders(
          at::zeros({kRiders}, at::dtype(at::kFloat).device(parameters.front().tensor.device()))),
      levels(groups, averager),
      progress(control_in),
      on_prepared(std::move(start.on_prepared)),
      on_applied(std::move(start.on_applied)),
      builder(groups, config.member,
              {[this](int64_t version) { progress.SetPrepared(version); },
               [this](int64_t version, const std::string& error) {
                 progress.SetFailed(version, error);
               }}) {
  if (!start.resumes) {
    MakeEqual(start.plan->shards.has_value() ? *start.plan->shards->lane : groups.all(),
              parameters);
  }
  progress.IsNew(start.plan->plan.version);
  TakeUp(std::move(start.plan), start.step);
  steps_done = start.step;
  const bool needs_mean = !ddp() && !has_levels();
  if (!start.resumes) {
    regroups = needs_mean && start.step > 0;  // Optimizer states may differ.
    return;
  }
  figures = std::move(start.memory.figures);
  // A rank may have begun the first step after the warm-up and undone it.
  synchronous = IsSynchronous(start.step - 1);
  regroups = start.regrouped && (needs_mean || levels.any());
  all_equal = start.memory.all_equal;
  if (start.regrouped) {
    levels.ResumeMomentum(start.memory.levels);
  } else {
    levels.Resume(start.memory.levels);
  }
  if (start.memory.equal.size == 0) return;
  levels.SetReferences(start.memory.equal, std::nullopt);
  all_equal = start.memory.equal.size == config.member.world_size;
}

std::vector<at::Tensor> Strategy::Parts::AveragedState() const {
  const bool all = config.strategy.average_optimizer_state || !has_levels();
  return all ? state() : std::vector<at::Tensor>();
}

void Strategy::Parts::Average(std::optional<int> level, at::Tensor with) {
  const auto index = static_cast<size_t>(level.value_or(0));
  Group& group = level ? *active->levels[index] : all();
  QuantizedMean* const quantized = level ? levels.quantized(index) : nullptr;
  OuterStep* const outer = level ? levels.outer(index) : nullptr;
  const bool of_all = group.size() == replicas();
  mean_step = steps_done;
  mean_outer = outer != nullptr ? static_cast<int>(index) : -1;
  Mean mean{group, AveragedState(), std::move(with), of_all, quantized, outer};
  if (active->shards.has_value() && group.size() > 1) {
    Group& word = level ? *active->shards->level_words[index] : *active->shards->all_word;
    // Riders travel with the word, so that all lanes get the same.
    mean.before_applying = [this, &word, riders = std::exchange(mean.riders, at::Tensor())] {
      GiveExchangeWord(word, riders);
    };
  }
  const int64_t sent = averager.Average(mean);
  if ((mean.before_applying || outer != nullptr) && on_applied) on_applied();
  // A quantised mean is the level's reference already, if that is what the weights hold.
  const bool refers = outer == nullptr && !averager.rounds();
  levels.SetReferences(RangeOf(group), refers ? level : std::nullopt);
  Count(/*gradients=*/false, group.size(), sent);
  bytes += sent;
}

void Strategy::Parts::GiveExchangeWord(Group& word, const at::Tensor& with) {
  on_prepared();
  at::Tensor sums = with.defined() ? with.to(at::kCPU, at::kDouble) : at::zeros({1}, at::kDouble);
  word.SumFew(sums);
  if (with.defined()) at::Tensor(with).copy_(sums);
}

void Strategy::Parts::AverageMomentum() {
  OuterStep* const outer = levels.last_outer();
  if (outer == nullptr || all().size() == 1) return;
  const at::NoGradGuard no_grad;
  const at::Tensor mean = outer->momentum().div(all().size());
  all().Sum(mean);
  outer->SetMomentum(mean);
  bytes += AllReduceBytes(static_cast<int64_t>(mean.nbytes()), all().size());
}

// All ranks' newest versions are equal if this rank's is their mean and the variance is 0.
bool Strategy::Parts::AllPrepared(const BuiltPlan& next) {
  const auto version = static_cast<double>(next.plan.version);
  at::Tensor sums = at::zeros({2}, riders.options().dtype(at::kDouble));
  sums[0].fill_(version);
  sums[1].fill_(version * version);
  groups.all().Sum(sums);
  const at::Tensor read = sums.cpu();
  const double* const sum = read.const_data_ptr<double>();
  return sum[0] == version * config.member.world_size &&
         sum[1] == version * version * config.member.world_size;
}

void Strategy::Parts::TakeUp(std::shared_ptr<const BuiltPlan> next, int64_t first_step) {
  const std::shared_ptr<const BuiltPlan> last = std::exchange(active, std::move(next));
  levels.Begin(*active);
  mean_outer = -1;
  schedule = ScheduleOf(active->plan, config.strategy);
  regroups = last != nullptr && !last->plan.levels.empty() && !has_levels();
  gradients.SetGroup(GradientGroup(first_step));
  builder.SetActive(active);
  PACELINE_LOG(INFO) << "plan version=" << active->plan.version << " step=" << first_step
                     << " ladder=" << LadderText(active->plan);
  progress.SetActive(active->plan.version, first_step);
}

void Strategy::Parts::Count(bool of_gradients, int group_size, int64_t sent) {
  LevelFigures& level = figures[{group_size, !of_gradients}];
  level.group_size = group_size;
  level.gradients = of_gradients;
  ++level.count;
  level.bytes += sent;
}

Strategy::Strategy(Groups& groups, const TrainerConfig& config, StrategyStart start,
                   const std::vector<NamedTensor>& parameters,
                   std::function<std::vector<at::Tensor>()> state, Control& control)
    : parts_(std::make_unique<Parts>(groups, config, std::move(start), parameters, std::move(state),
                                     control)) {}

Strategy::~Strategy() = default;

void Strategy::BeginForward(int64_t step, bool last) {
  Parts& parts = *parts_;
  if (parts.regroups && step >= parts.alone_below) {
    parts.AverageMomentum();
    parts.Average(std::nullopt, at::Tensor());
    parts.all_equal = true;
    parts.regroups = false;
  }
  if (std::exchange(parts.synchronous, parts.IsSynchronous(step)) && !parts.synchronous) {
    parts.levels.SetReferences(parts.RangeOf(parts.all()), std::nullopt);
  }
  parts.gradients.SetGroup(parts.GradientGroup(step));
  parts.gradients.BeginForward(last);
  parts.gradients_due = last && parts.gradients.group() != nullptr;
}

void Strategy::Backward(const at::Tensor& loss, const std::function<void()>& on_computed) {
  Parts& parts = *parts_;
  parts.gradients.Backward(loss, on_computed);
  if (!parts.gradients_due) return;
  const int64_t sent = parts.gradients.bytes();
  parts.Count(/*gradients=*/true, parts.gradients.group()->size(), sent);
  parts.bytes += sent;
}

Group* Strategy::gradient_group() const { return parts_->gradients.group(); }

double Strategy::GiveWord(int64_t step, double squares) {
  Parts& parts = *parts_;
  const Member& member = parts.config.member;
  // The warm-up has ended: nobody goes on in its group while another rank has yet to apply the last
  // step of all. That one may have to ask for its norm.
  if (step > std::max(parts.first_step, parts.alone_below) && parts.IsSynchronous(step - 1) &&
      !parts.IsSynchronous(step)) {
    StepWord(*parts.active->shards->all_word, member).Give(0);
  }
  return StepWord(parts.WordGroup(step), member).Give(squares);
}

StepExchange Strategy::AfterStep(int64_t step, const at::Tensor& loss,
                                 const std::function<void()>& on_average) {
  Parts& parts = *parts_;
  parts.steps_done = step + 1;
  StepExchange result;
  parts.all_equal =
      parts.replicas() == 1 || (parts.IsSynchronous(step) && step >= parts.alone_below);
  if (parts.gradients.group() != nullptr) {
    result.gradient_group_size = parts.gradients.group()->size();
  }
  const bool boundary = parts.IsBoundary(step);
  std::shared_ptr<const BuiltPlan> next;
  at::Tensor riders;
  if (boundary) {
    next = parts.builder.newest();
    if (next != nullptr && next->plan.version <= parts.active->plan.version) next = nullptr;
    const at::NoGradGuard no_grad;
    riders = parts.riders;
    riders.zero_();
    if (next != nullptr) riders[kReady].fill_(1);
    if (loss.defined()) {
      riders[kLoss].copy_(loss.detach());
      riders[kLosses].fill_(1);
    }
  }
  if (const std::optional<int> level = parts.LevelAt(step)) {
    Group& group = *parts.active->levels[static_cast<size_t>(*level)];
    if (group.size() > 1) {
      on_average();
      parts.Average(level, riders);
      result.group_size = group.size();
    }
    parts.all_equal = parts.all_equal || group.size() == parts.replicas();
  } else if (boundary && parts.active->shards.has_value()) {
    parts.GiveExchangeWord(*parts.active->shards->all_word, riders);
    parts.on_applied();
  } else if (boundary) {
    parts.groups.all().Sum(riders);
    parts.bytes +=
        AllReduceBytes(static_cast<int64_t>(riders.nbytes()), parts.config.member.world_size);
  }
  if (boundary && loss.defined()) {
    result.mean_loss = riders[kLoss].div(riders[kLosses]).to(at::kFloat);
  }
  // A rank that is not ready skips this exchange, so either all make it or none does.
  if (boundary && next != nullptr &&
      riders[kReady].item<double>() == static_cast<double>(parts.config.member.world_size) &&
      parts.AllPrepared(*next)) {
    parts.TakeUp(std::move(next), step + 1);
  }
  result.all_equal = parts.all_equal;
  result.bytes = std::exchange(parts.bytes, 0);
  return result;
}

void Strategy::AverageAll() {
  Parts& parts = *parts_;
  if (parts.all_equal) return;
  parts.Average(std::nullopt, at::Tensor());
  parts.all_equal = true;
}

void Strategy::Prepare(const TrainingPlan& plan) {
  Parts& parts = *parts_;
  if (!parts.progress.IsNew(plan.version)) return;
  const absl::Status fits = CheckPlanOf(plan, parts.config);
  if (!fits.ok()) {
    parts.progress.SetFailed(plan.version, std::string(fits.message()));
    return;
  }
  parts.builder.Build(plan);
}

RankRange Strategy::GradientGroupAt(int64_t step) const {
  Group* const group = parts_->GradientGroup(step);
  if (group != nullptr) return parts_->RangeOf(*group);
  const Lanes lanes = parts_->config.member.lanes();
  return {lanes.RankOf(lanes.ReplicaOf(parts_->config.rank()), 0), lanes.shards};
}

RankRange Strategy::ExchangeAt(int64_t step) const {
  const std::optional<int> level = parts_->LevelAt(step);
  if (level.has_value()) {
    const Group& group = *parts_->active->levels[static_cast<size_t>(*level)];
    return group.size() > 1 ? parts_->RangeOf(group) : RankRange{parts_->config.rank(), 1};
  }
  return parts_->IsBoundary(step) ? parts_->RangeOf(parts_->all()) : RankRange{};
}

bool Strategy::is_regrouping() const { return parts_->regroups; }

StrategyMemory Strategy::Memory() const {
  StrategyMemory memory;
  memory.gradient_order = parts_->gradients.order();
  memory.all_equal = parts_->all_equal;
  memory.figures = parts_->figures;
  memory.mean = parts_->averager.latest();
  memory.mean_step = parts_->mean_step;
  memory.levels = parts_->levels.Memory();
  if (parts_->quantized_gradients != nullptr) {
    memory.gradient_rest = parts_->quantized_gradients->rest_if_sent();
    memory.gradient_rest_before = parts_->quantized_gradients->rest_if_repeated();
  }
  if (memory.mean.defined() && parts_->mean_outer >= 0) {
    memory.mean_outer = parts_->mean_outer;
    memory.mean_momentum =
        parts_->levels.outer(static_cast<size_t>(memory.mean_outer))->latest_momentum();
  }
  return memory;
}

std::vector<NamedTensor> Strategy::State() const {
  std::vector<NamedTensor> own = parts_->levels.Own();
  if (parts_->quantized_gradients != nullptr) {
    own.push_back({"averager/gradient_rest", parts_->quantized_gradients->rest()});
  }
  return own;
}

std::vector<NamedTensor> Strategy::OuterMomentum() const {
  return parts_->levels.Momentum(parts_->parameters);
}

const TrainingPlan& Strategy::plan() const { return parts_->active->plan; }

std::string Strategy::ladder() const { return LadderText(parts_->active->plan); }

std::vector<LevelFigures> Strategy::figures() const {
  std::vector<LevelFigures> figures;
  for (const auto& [key, level] : parts_->figures) figures.push_back(level);
  return figures;
}

double Strategy::drift() const { return parts_->averager.drift(); }

}  // namespace paceline
