#include "worker/trainer/loop/train_loop.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "common/core/startup_steps.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/copies/state_copies.h"
#include "worker/trainer/generation/rendezvous.h"

namespace paceline {
namespace {

// The generation whose state this one goes on from; 0: none of this job. Call before Resume.
int64_t ParentOf(const TrainingState& state, const TrainerConfig& config) {
  if (state.position.generation > 0 || state.checkpoint == nullptr) {
    return state.position.generation;
  }
  const Manifest& manifest = state.checkpoint->manifest();
  return manifest.job_id == config.id.job.value() ? manifest.generation : 0;
}

// Of ranks that have the same samples, the first one does.
bool KeepsLedger(const TrainingParts& parts) {
  const Member& member = parts.config.member;
  const int alike = member.world_size / parts.workload.SamplingAs(member).world_size;
  return parts.ledger != nullptr && member.rank % alike == 0;
}

// What a checkpoint has of this rank.
std::vector<StateTensor> StateOf(const TrainingParts& parts, const Strategy& strategy) {
  Workload& workload = parts.workload;
  std::vector<StateTensor> state =
      CollectState(parts.config, workload.model(), workload.optimizer(), workload.attachments());
  ReplaceParameters(workload.model().parameters(), strategy.CommonParameters(), &state);
  for (const NamedTensor& one : strategy.State()) {
    state.push_back({one.name, one.tensor, /*own=*/true});
  }
  for (const NamedTensor& one : strategy.OuterMomentum()) {
    StateTensor momentum{one.name, one.tensor};
    momentum.slice = one.slice;
    state.push_back(std::move(momentum));
  }
  // With shards, each position may have another.
  const bool has_order = parts.config.member.shards == 1;
  if (workload.attachments() != nullptr && has_order) {
    state.push_back(OrderTensor(strategy.Memory().gradient_order));
  }
  return state;
}

// Null: the strategy takes the mean of the gradients.
std::function<void(Group*)> GradientGroupListener(Workload& workload) {
  if (!workload.averages_gradients()) return nullptr;
  return [&workload](Group* group) { workload.SetGradientGroup(group); };
}

}  // namespace

TrainLoop::TrainLoop(const TrainingParts& parts)
    : parts_(parts),
      config_(parts.config),
      state_(parts.state),
      first_step_(parts.state.position.step),
      parent_(ParentOf(parts.state, parts.config)),
      strategy_(
          parts.groups, config_,
          StrategyStart{parts.plan, first_step_, /*resumes=*/!parts.begins, parts.state.memory,
                        parts.state.position.alone_below, parts.state.regrouped,
                        /*on_prepared=*/[this] { state_.position.mean_prepared = true; },
                        /*on_applied=*/
                        [this] {
                          RankPosition& position = state_.position;
                          position.mean_prepared = false;
                          if (std::exchange(position.exchanged, true)) ++position.means;
                        },
                        GradientGroupListener(parts.workload),
                        CompensationOf(parts.workload.optimizer())},
          parts.workload.model().parameters(),
          [this] { return AveragedState(parts_.workload.optimizer()); }, parts.control),
      profiler_(ProfilerOptions(parts)),
      report_({config_, parts.workload.model(), parts.control, parts.platform,
               [this](RankFigures* figures) {
                 figures->learning_rate = parts_.workload.LearningRate(figures->step - 1);
                 figures->levels = strategy_.figures();
                 figures->drift = strategy_.drift();
                 figures->objects = parts_.workload.objects();
                 // Of ranks with the same samples, one counts them.
                 return static_cast<double>(parts_.workload.SamplingAs(config_.member).world_size);
               },
               parts.state.communication, parts.state.reported, parts.state.has_begun}),
      local_step_({config_, parts.workload.model(), parts.timer, [this] { BeforeChange(); }},
                  MakeHooks()),
      evaluation_(parts_),
      after_a_break_(!parts.begins) {
  if (parts_.begins && state_.checkpoint == nullptr) {
    LaneOf(parts_).CopyFromFirst(TensorsOf(parts_.workload.model().buffers()));
  }
  if (config_.model.sync_batchnorm) {
    batch_norm_.emplace(parts_.groups, config_.rank(), parts_.workload.model());
  }
  parts_.workload.OpenData(DataOf(first_step_), state_.data);
  if (parts_.saver != nullptr) {
    saves_.emplace(
        SaveSchedule::Parts{config_.checkpoint, config_.steps, parts_.groups, *parts_.saver,
                            state_.saver, [this] { strategy_.AverageAll(); }},
        first_step_);
    parts_.saver->Enter({config_, parts_.groups, [this] { return StateOf(parts_, strategy_); },
                         [this](Manifest* manifest) {
                           manifest->plan_epoch = strategy_.plan().version;
                           manifest->ladder = strategy_.ladder();
                           manifest->data_epoch = state_.data.epoch;
                           manifest->data_offset = state_.data.offset;
                         },
                         [this](const SaveOrder& order) { saves_->Propose(order); }},
                        &state_.saver);
  }
  parts_.control.SetPlanListener([this](const TrainingPlan& plan) {
    if (!parts_.has_successor()) strategy_.Prepare(plan);
  });
  state_.memory = StrategyMemory();  // Passed to the strategy.
  if (KeepsLedger(parts_)) {
    parts_.ledger->Add(RunAt(std::max(first_step_, state_.position.alone_below)));
  }
}

TrainLoop::~TrainLoop() {
  parts_.control.SetPlanListener(nullptr);
  parts_.workload.model().SetActiveGroup(nullptr);
  if (parts_.saver != nullptr) parts_.saver->Leave();
}

const Member& TrainLoop::DataOf(int64_t step) const {
  return step < state_.position.alone_below ? state_.alone_as : config_.member;
}

absl::StatusOr<StepOrder> TrainLoop::Next() {
  while (true) {
    const int64_t done = state_.position.step;
    switch (stage_) {
      case Stage::kEnter:
        stage_ = Stage::kTrain;
        if (state_.is_open || !state_.position.exchanged) EndOpenStep();
        if (!parts_.begins && IsEvaluated(done)) {  // One was cut off.
          if (const auto order = EvaluateAfter(done)) return *order;
        }
        break;
      case Stage::kTrain:
        stage_ = Stage::kReady;
        if (!parts_.begins) parts_.groups.SetTimeout(config_.collective_timeout);
        break;
      case Stage::kStepped:
        stage_ = Stage::kBetween;
        if (saves_.has_value()) saving_ = saves_->AfterStep(done, can_save_);
        CopyStateIfDue(done);
        after_a_break_ = profiler_.AfterStep();
        PACELINE_RETURN_IF_ERROR(report_.Publish(parts_.timer.TakeFinished()));
        if (parts_.begins && done == first_step_ + kStartupSteps) {
          parts_.groups.SetTimeout(config_.collective_timeout);
        }
        if (IsEvaluated(done)) {
          if (const auto order = EvaluateAfter(done)) return *order;
        }
        break;
      case Stage::kBetween:
        stage_ = Stage::kReady;
        if (done < config_.steps && parts_.leaves_after(done)) {
          if (!parts_.averages_first()) return StepOrder{StepOrder::Kind::kLeft};
          BeforeChange();
          parts_.timer.Enter(Phase::kAveraging, done);  // So whoever hangs is found.
          strategy_.AverageAll();
          parts_.timer.Enter(Phase::kIdle, done);
          return StepOrder{StepOrder::Kind::kLeft};
        }
        break;
      case Stage::kReady:
        if (done < config_.steps) {
          if (!parts_.control.stop_requested()) return BeginStep(done);
          profiler_.Finish();
          return StepOrder{StepOrder::Kind::kDone};
        }
        stage_ = Stage::kEvaluated;
        PACELINE_RETURN_IF_ERROR(Finish());
        if (const auto order = EvaluateAfter(config_.steps)) return *order;
        break;
      case Stage::kEvaluated:
        PACELINE_RETURN_IF_ERROR(CompleteEnd(parts_));
        return StepOrder{StepOrder::Kind::kDone};
    }
  }
}

void TrainLoop::BeforeChange() {
  if (parts_.saver != nullptr) parts_.saver->BeforeChange();
  if (parts_.copies != nullptr) parts_.copies->BeforeChange();
}

uint64_t TrainLoop::Layout() const {
  return strategy_.is_regrouping() ? 0 : LayoutOf(config_.member, strategy_.plan());
}

void TrainLoop::CopyStateIfDue(int64_t steps_done) {
  if (parts_.copies == nullptr || !parts_.copies->IsDue(steps_done)) return;
  ImageFacts facts;
  facts.data = state_.data;
  facts.evaluated = state_.position.evaluated;
  facts.alone_below = state_.position.alone_below;
  facts.layout = Layout();
  facts.all_equal = all_equal_;
  StrategyMemory memory = strategy_.Memory();
  Workload& workload = parts_.workload;
  parts_.copies->Copy(steps_done, parts_.copy_orders(),
                      {workload.model(), workload.optimizer(), workload.attachments(),
                       &memory.levels, &memory.gradient_rest},
                      facts);
}

// The last evaluation is of the mean of all ranks (Finish).
bool TrainLoop::IsEvaluated(int64_t steps_done) const {
  const int64_t every = config_.eval_every;
  return every > 0 && steps_done > 0 && steps_done % every == 0 && steps_done < config_.steps;
}

std::optional<StepOrder> TrainLoop::EvaluateAfter(int64_t steps_done) {
  if (!evaluation_.IsDue(steps_done)) return std::nullopt;
  after_a_break_ = true;
  evaluation_.Begin(steps_done);
  StepOrder order;
  order.kind = StepOrder::Kind::kEvaluate;
  order.member = config_.member;
  return order;
}

absl::Status TrainLoop::Resume() {
  if (state_.checkpoint == nullptr) return absl::OkStatus();
  absl::Status restored;
  // Else a rank has taken the state of one that had not trained yet, without these: all begin from
  // zero, for members of a group must have the same momenta.
  if (parts_.begins) {
    restored =
        RestoreStrategyState(*state_.checkpoint, config_, strategy_.ladder(), strategy_.State());
    if (restored.ok()) restored = RestoreMomentum(*state_.checkpoint, strategy_.OuterMomentum());
  }
  state_.checkpoint.reset();
  return restored.ok() ? restored : RestoreError(config_.restore_from, restored);
}

void TrainLoop::Leave() {
  parts_.timer.Flush();
  const absl::Status published = report_.Publish(parts_.timer.TakeFinished());
  if (!published.ok()) PACELINE_LOG(ERROR) << published.message();
  profiler_.Finish();
  RankPosition& position = state_.position;
  position.rank = config_.rank();
  position.gradients = strategy_.GradientGroupAt(position.step);
  // Those that went on alone share gradients before they are equal.
  position.peers = position.alone_below == 0 ? position.gradients : RankRange();
  // Between an exchange and the next step others may have taken a plan up, and gone on by it.
  const bool ends_step = state_.is_open && !state_.in_step && position.exchanged;
  if (config_.member.shards > 1 && ends_step) position.gradients = RankRange();
  position.exchange = strategy_.ExchangeAt(position.prepared ? position.step : position.step - 1);
  position.layout = Layout();
  state_.member = config_.member;
  state_.memory = strategy_.Memory();
}

StepOrder TrainLoop::BeginStep(int64_t step) {
  if (const auto request = parts_.control.profile_request()) profiler_.BeforeStep(*request, step);
  CheckGeneration(parts_);
  report_.BeforeStep();
  if (parts_.undo != nullptr) parts_.undo->Keep();
  state_.in_step = true;
  StepOrder order;
  order.kind = StepOrder::Kind::kStep;
  order.number = step;
  order.learning_rate = parts_.workload.LearningRate(step);
  order.member = DataOf(step);
  parts_.workload.OpenData(order.member, state_.data);
  StepResult& result = state_.open_result;
  local_step_.Begin({step, /*disturbed_as=*/step, order.learning_rate,
                     order.member.accumulation_steps, order.updates},
                    &result);
  result.masked = profiler_.active() || after_a_break_ || saving_;
  return order;
}

LocalStep::Hooks TrainLoop::MakeHooks() {
  LocalStep::Hooks hooks{[this] { CheckGeneration(parts_); },
                         [this](bool last) { BeginForward(last); },
                         [this](const at::Tensor& loss, const std::function<void()>& on_computed) {
                           if (batch_norm_.has_value()) batch_norm_->EndForward();
                           strategy_.Backward(loss, on_computed);
                         },
                         [this] {
                           // From now on, other ranks may do this step.
                           state_.open_data = parts_.workload.position();
                           state_.position.computed = state_.is_open = true;
                         }};
  if (config_.member.shards == 1) return hooks;
  hooks.on_prepared = [this](double squares, double max_norm) {
    state_.max_norm = max_norm;
    state_.position.prepared = true;
    state_.word_norm = strategy_.GiveWord(state_.position.step, squares);
    state_.max_norm = 0;  // The caller clips at once.
    return state_.word_norm;
  };
  return hooks;
}

void TrainLoop::BeginForward(bool last) {
  const int64_t step = state_.position.step;
  // A mean of all ranks, or an average that is taken up, then changes what is being copied.
  if (strategy_.changes_first()) BeforeChange();
  strategy_.BeginForward(step, last);
  if (!batch_norm_.has_value()) return;
  local_step_.ShowWait(true);
  batch_norm_->BeginPass(strategy_.gradient_group(), parts_.workload.ActiveRanks(DataOf(step)));
  local_step_.ShowWait(false);
}

void TrainLoop::Updated() {
  const int64_t step = state_.position.step;
  report_.ExpectNorms(local_step_.norms().each);
  state_.in_step = false;
  state_.is_open = true;
  const DataPosition begin = std::exchange(state_.data, parts_.workload.position());
  if (KeepsLedger(parts_)) NoteSamples(step, begin);
  state_.position.computed = state_.position.prepared = false;
  state_.position.step = step + 1;
  state_.position.exchanged = strategy_.ExchangeAt(step).size <= 1;
  state_.position.left_out = false;
}

absl::Status TrainLoop::EndStep() {
  const int64_t step = state_.position.step - 1;
  StepResult& result = state_.open_result;
  const StepExchange exchange =
      strategy_.AfterStep(step, result.loss, [&] { parts_.timer.Enter(Phase::kAveraging, step); });
  state_.position.exchanged = true;
  result.averaging_group_size = exchange.group_size;
  result.wire_bytes = exchange.bytes;
  report_.Expect(MeanLoss(step, result.loss, exchange.mean_loss), exchange.gradient_group_size,
                 LineIsDue(step));
  parts_.timer.EndStep(result);
  state_.is_open = false;
  all_equal_ = exchange.all_equal;
  // Below, other ranks may have been ahead when they met, and do not come to this step again.
  const bool is_new = state_.position.step > state_.furthest;
  can_save_ = exchange.takes_average_up ? is_new : all_equal_;
  stage_ = Stage::kStepped;
  return absl::OkStatus();
}

SampleRun TrainLoop::RunAt(int64_t step) const {
  const int64_t alone_below = state_.position.alone_below;
  const Member& member = DataOf(step);
  const RankRange together =
      step < alone_below ? RankRange{member.rank, 1} : strategy_.GradientGroupAt(step);
  const Sampler::Options sampling = parts_.workload.SamplingAs(member);
  const int alike = member.world_size / sampling.world_size;  // Ranks that have the same samples.
  SampleRun run;
  run.generation = config_.member.generation;
  run.parent = parent_;
  run.since = std::max(first_step_, alone_below);
  run.rank = sampling.rank;
  run.world_size = sampling.world_size;
  run.batch = static_cast<int32_t>(sampling.batch);
  run.passes = static_cast<int32_t>(member.accumulation_steps);
  run.with_first = together.first / alike;
  run.with_size = std::max(1, together.size / alike);
  run.first_step = step;
  run.begin = run.end = state_.data;
  run.mixture = sampling.mixture;
  const bool enough =
      run.mixture != nullptr || sampling.samples >= sampling.batch * sampling.world_size;
  run.samples = enough ? sampling.samples : 0;
  run.seed = sampling.seed;
  run.shuffle = sampling.shuffle;
  run.drop_last = sampling.drop_last;
  return run;
}

void TrainLoop::NoteSamples(int64_t step, const DataPosition& begin) {
  SampleRun run = RunAt(step);
  run.steps = 1;
  run.begin = begin;
  // Else the script has taken its batches from elsewhere.
  if (run.samples > 0 && !(PositionAfterStep(run) == run.end)) {
    run.samples = 0;
    run.mixture = nullptr;
  }
  parts_.ledger->Add(run);
}

void TrainLoop::EndOpenStep() {
  const int64_t step = first_step_ - 1;
  StepResult& result = state_.open_result;
  result.masked = true;
  if (!state_.is_open) result.loss = at::Tensor();
  StepExchange exchange;
  const bool exchanges = !state_.position.exchanged;
  if (exchanges) {
    exchange = strategy_.AfterStep(step, result.loss,
                                   [&] { parts_.timer.Enter(Phase::kAveraging, step); });
    state_.position.exchanged = true;
  }
  if (std::exchange(state_.is_open, false)) {
    result.averaging_group_size = exchange.group_size;
    result.wire_bytes = exchange.bytes;
    report_.Expect(exchange.mean_loss, exchange.gradient_group_size, LineIsDue(step));
    parts_.timer.EndStep(result);
  }
  // A save that other ranks began in the previous generation is due again, on all ranks.
  if (exchanges && saves_.has_value()) {
    saving_ = saves_->AfterStep(step + 1, exchange.all_equal);
  }
}

bool TrainLoop::LineIsDue(int64_t step) const {
  const int64_t done = step + 1;
  return done % config_.log_every == 0 || done == config_.steps;
}

at::Tensor TrainLoop::MeanLoss(int64_t step, const at::Tensor& loss, at::Tensor mean) {
  if (config_.strategy.kind == StrategyConfig::Kind::kDdp && LineIsDue(step)) {
    parts_.timer.Enter(Phase::kCommunication, step);
    mean = at::mul(loss, 1.0 / config_.member.world_size);
    parts_.groups.all().Sum(mean);
  }
  if (!mean.defined() || mean.is_cpu()) return mean;
  at::Tensor host = at::empty({}, mean.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(mean, /*non_blocking=*/true);
}

absl::Status TrainLoop::Finish() {
  parts_.timer.Flush();
  PACELINE_RETURN_IF_ERROR(report_.Publish(parts_.timer.TakeFinished()));
  profiler_.Finish();
  return PrepareEnd(
      parts_, [this] { strategy_.AverageAll(); }, [this] { saves_->SaveAtEnd(config_.steps); });
}

}  // namespace paceline
