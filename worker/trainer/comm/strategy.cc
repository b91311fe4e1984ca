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
#include "worker/trainer/comm/row_codec.h"
#include "worker/trainer/comm/step_riders.h"
#include "worker/trainer/comm/step_word.h"
#include "worker/trainer/comm/strategy_parts.h"
#include "worker/trainer/comm/streamed_average.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/core/averaging_schedule.h"

namespace paceline {
namespace {

// Whether each rank has parameters of its own, beside those that all have in common.
bool HasOwn(const StreamedAverage* stream) { return stream != nullptr && !stream->makes_equal(); }

}  // namespace

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
  // A rank may have begun the first step after the warm-up and undone it.
  synchronous = IsSynchronous(start.step - 1);
  const bool needs_mean = !ddp() && !has_levels();
  if (!start.resumes) {
    regroups = needs_mean && start.step > 0;  // Optimizer states may differ.
    // A checkpoint may have parameters of each rank's own.
    all_equal = synchronous || !HasOwn(stream.get());
    return;
  }
  figures = std::move(start.memory.figures);
  regroups = start.regrouped && (needs_mean || levels.any());
  all_equal = start.memory.all_equal;
  if (start.regrouped) {
    levels.ResumeMomentum(start.memory.levels);
  } else {
    levels.Resume(start.memory.levels);
    catches_up = stream != nullptr;
    if (catches_up && !start.memory.levels.empty()) {
      stream->Resume(start.memory.levels.back());
    }
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

void Strategy::Parts::AfterStreamedStep(int64_t step, const at::Tensor& loss,
                                        const std::shared_ptr<const BuiltPlan>& next,
                                        const std::function<void()>& on_average,
                                        StepExchange* result) {
  if (stream->IsToBegin(step)) {
    on_average();
    const int64_t sent = stream->Begin(step, MakeRiders(next != nullptr, loss, device()));
    Count(/*gradients=*/false, all().size(), sent);
    bytes += sent;
  }
  if (stream->IsToTurn(step)) {
    on_average();
    stream->Turn();
  }
  if (!stream->IsDue(step)) return;
  on_average();
  const at::Tensor sums = stream->TakeUp();
  all_equal = stream->makes_equal();
  result->takes_average_up = true;
  result->group_size = all().size();
  if (!sums.defined()) return;
  if (HasLosses(sums)) result->mean_loss = MeanLossOf(sums);
  TakeUpIfReady(next, sums, step + 1);
  result->takes_average_up = !regroups;  // A new plan has another point.
}

void Strategy::Parts::CatchUp(int64_t step) {
  if (!std::exchange(catches_up, false)) return;
  stream->SendAgain();
  if (!IsStreamed(step - 1)) return;
  const std::function<void()> ignored = [] {};
  StepExchange unseen;
  // A new plan waits: it would change the step that has begun.
  AfterStreamedStep(step - 1, at::Tensor(), nullptr, ignored, &unseen);
}

// A rank that is not ready skips the exchange of versions, so either all make it or none does.
void Strategy::Parts::TakeUpIfReady(const std::shared_ptr<const BuiltPlan>& next,
                                    const at::Tensor& sums, int64_t first_step) {
  if (next != nullptr && AllReady(sums, config.member.world_size) &&
      HaveAll(groups.all(), next->plan.version, device())) {
    TakeUp(next, first_step);
  }
}

void Strategy::Parts::TakeUp(std::shared_ptr<const BuiltPlan> next, int64_t first_step) {
  const std::shared_ptr<const BuiltPlan> last = std::exchange(active, std::move(next));
  const bool leaves_stream = std::exchange(stream, nullptr) != nullptr;
  levels.Begin(*active);
  if (paceline::IsStreamed(active->plan) && replicas() > 1) {
    stream = std::make_unique<StreamedAverage>(
        StreamedAverage::Parts{*active->levels.front(), averager, *levels.outer(0),
                               groups.row_codec(), RowFormatOf(active->plan.levels.front().format)},
        StreamScheduleOf(active->plan, config.strategy), active->plan.levels.front().outer->alpha,
        first_step);
  }
  mean_outer = -1;
  schedule = ScheduleOf(active->plan, config.strategy);
  // The ranks of a streamed level are not equal.
  regroups = last != nullptr && !last->plan.levels.empty() && (leaves_stream || !has_levels());
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
  parts.CatchUp(step);
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
  if (parts.IsStreamed(step)) {
    parts.AfterStreamedStep(step, loss, parts.NewerPlan(), on_average, &result);
    result.all_equal = parts.all_equal;
    result.bytes = std::exchange(parts.bytes, 0);
    return result;
  }
  const bool boundary = parts.IsBoundary(step);
  std::shared_ptr<const BuiltPlan> next;
  at::Tensor riders;
  if (boundary) {
    next = parts.NewerPlan();
    riders = MakeRiders(next != nullptr, loss, parts.device());
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
  if (boundary && loss.defined()) result.mean_loss = MeanLossOf(riders);
  if (boundary) parts.TakeUpIfReady(next, riders, step + 1);
  result.all_equal = parts.all_equal;
  result.bytes = std::exchange(parts.bytes, 0);
  return result;
}

void Strategy::AverageAll() {
  Parts& parts = *parts_;
  parts.CatchUp(parts.steps_done);
  if (parts.all_equal) return;
  if (parts.stream != nullptr) parts.stream->Drop();
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
  if (parts_->IsStreamed(step)) return {};
  const std::optional<int> level = parts_->LevelAt(step);
  if (level.has_value()) {
    const Group& group = *parts_->active->levels[static_cast<size_t>(*level)];
    return group.size() > 1 ? parts_->RangeOf(group) : RankRange{parts_->config.rank(), 1};
  }
  return parts_->IsBoundary(step) ? parts_->RangeOf(parts_->all()) : RankRange{};
}

bool Strategy::is_regrouping() const { return parts_->regroups; }

bool Strategy::changes_first() const { return parts_->regroups || parts_->catches_up; }

bool Strategy::is_averaging() const {
  return parts_->stream != nullptr && parts_->stream->is_waiting();
}

StrategyMemory Strategy::Memory() const {
  StrategyMemory memory;
  memory.gradient_order = parts_->gradients.order();
  memory.all_equal = parts_->all_equal;
  memory.figures = parts_->figures;
  memory.mean = parts_->averager.latest();
  memory.mean_step = parts_->mean_step;
  memory.levels = parts_->levels.Memory();
  if (parts_->stream != nullptr) parts_->stream->AddMemory(&memory.levels.back());
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
  if (parts_->stream == nullptr) return own;
  for (NamedTensor& one : parts_->stream->Own()) own.push_back(std::move(one));
  if (parts_->stream->makes_equal()) return own;
  for (const NamedTensor& one : parts_->parameters) {
    own.push_back({absl::StrCat("averager/own/", one.name), one.tensor.detach()});
  }
  return own;
}

std::vector<at::Tensor> Strategy::CommonParameters() const {
  std::vector<at::Tensor> common;
  if (!HasOwn(parts_->stream.get()) || parts_->all_equal) return common;
  const at::Tensor& point = parts_->levels.last_outer()->point();
  int64_t first = 0;
  for (const NamedTensor& one : parts_->parameters) {
    const int64_t values = one.tensor.numel();
    const at::Tensor part = point.narrow(0, first, values).view(one.tensor.sizes());
    common.push_back(part.to(one.tensor.scalar_type()));
    first += values;
  }
  return common;
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
