#include "worker/trainer/loop/train_loop.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <utility>
#include <vector>

#include "common/core/startup_steps.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/generation/quiescence.h"
#include "worker/trainer/generation/rendezvous.h"

namespace paceline {

TrainLoop::TrainLoop(const TrainingParts& parts)
    : parts_(parts),
      config_(parts.config),
      state_(parts.state),
      first_step_(parts.state.position.step),
      strategy_(
          parts.groups, config_,
          StrategyStart{parts.plan, first_step_, /*resumes=*/!parts.begins, parts.state.memory,
                        parts.state.position.alone_below, parts.state.regrouped},
          parts.model.parameters(), [this] { return TensorsOf(parts_.optimizer.Slots()); },
          parts.control),
      profiler_(ProfilerOptions(parts)),
      report_({config_, parts.model, parts.control, parts.platform,
               [this](RankFigures* figures) {
                 figures->levels = strategy_.figures();
                 figures->drift = strategy_.drift();
                 return static_cast<double>(config_.member.world_size);
               },
               parts.state.communication}),
      local_step_({config_, parts.train_data, parts.model, parts.optimizer, parts.platform,
                   parts.timer,
                   [saver = parts.saver] {
                     if (saver != nullptr) saver->BeforeChange();
                   }}),
      after_a_break_(!parts.begins) {
  if (parts_.begins && state_.checkpoint == nullptr) {
    parts_.groups.all().CopyFromFirst(TensorsOf(parts_.model.buffers()));
  }
  parts_.model.SetActiveGroup(&parts_.groups.all());
  OpenData(first_step_);
  if (parts_.saver != nullptr) {
    saves_.emplace(
        SaveSchedule::Parts{config_.checkpoint, config_.steps, parts_.groups, *parts_.saver,
                            state_.saver, [this] { strategy_.AverageAll(); }},
        first_step_);
    parts_.saver->Enter({config_, parts_.groups,
                         [this] {
                           std::vector<StateTensor> state =
                               CollectState(config_, parts_.model, parts_.optimizer);
                           for (const NamedTensor& one : strategy_.State()) {
                             state.push_back({one.name, one.tensor, /*own=*/true});
                           }
                           return state;
                         },
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
}

TrainLoop::~TrainLoop() {
  parts_.control.SetPlanListener(nullptr);
  parts_.model.SetActiveGroup(nullptr);
  if (parts_.saver != nullptr) parts_.saver->Leave();
}

void TrainLoop::OpenData(int64_t step) {
  local_step_.OpenData(step < state_.position.alone_below ? state_.alone_as : config_.member,
                       state_.data);
}

absl::StatusOr<TrainEnd> TrainLoop::Run() {
  if (state_.is_open || !state_.position.exchanged) EndOpenStep();
  // The last evaluation is of the mean of all ranks (Finish).
  const auto is_evaluated = [every = config_.eval_every, this](int64_t done) {
    return every > 0 && done > 0 && done % every == 0 && done < config_.steps;
  };
  if (!parts_.begins && is_evaluated(first_step_)) {  // One was cut off.
    PACELINE_RETURN_IF_ERROR(EvaluateAt(first_step_));
  }
  if (!parts_.begins) parts_.groups.SetTimeout(config_.collective_timeout);
  for (int64_t step = first_step_; step < config_.steps; ++step) {
    if (parts_.control.stop_requested()) {
      profiler_.Finish();
      return TrainEnd::kDone;
    }
    if (const auto request = parts_.control.profile_request()) {
      profiler_.BeforeStep(*request, step);
    }
    PACELINE_RETURN_IF_ERROR(RunStep(step));
    profiler_.AfterStep(step);
    after_a_break_ = false;

    PACELINE_RETURN_IF_ERROR(report_.Publish(parts_.timer.TakeFinished()));
    const int64_t done = step + 1;
    if (parts_.begins && done == first_step_ + kStartupSteps) {
      parts_.groups.SetTimeout(config_.collective_timeout);
    }
    if (is_evaluated(done)) PACELINE_RETURN_IF_ERROR(EvaluateAt(done));
    if (done < config_.steps && parts_.leaves_after(done)) return TrainEnd::kLeft;
  }
  PACELINE_RETURN_IF_ERROR(Finish());
  return TrainEnd::kDone;
}

absl::Status TrainLoop::Resume() {
  if (state_.checkpoint == nullptr) return absl::OkStatus();
  const absl::Status restored =
      RestoreStrategyState(*state_.checkpoint, config_, strategy_.ladder(), strategy_.State());
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
  position.exchange = strategy_.ExchangeAt(position.step - 1);
  // 0 is no layout: the next generation's will differ again.
  position.layout = strategy_.is_regrouping() ? 0 : LayoutOf(config_.member, strategy_.plan());
  state_.member = config_.member;
  state_.memory = strategy_.Memory();
}

absl::Status TrainLoop::RunStep(int64_t step) {
  CheckGeneration(parts_);
  if (parts_.undo != nullptr) parts_.undo->Keep();
  state_.in_step = true;
  OpenData(step);
  StepResult& result = state_.open_result;
  local_step_.Begin(step, LearningRate(config_.schedule, step), &result);
  result.masked = profiler_.active() || after_a_break_ || saving_;
  PACELINE_ASSIGN_OR_RETURN(const GradientNorms norms,
                            local_step_.Update(step, HooksOf(step), &result));
  report_.ExpectNorms(norms.each);
  state_.in_step = false;
  state_.is_open = true;
  state_.data = local_step_.position();
  state_.position.computed = false;
  state_.position.step = step + 1;
  state_.position.exchanged = strategy_.ExchangeAt(step).size <= 1;
  EndStep(step);
  return absl::OkStatus();
}

LocalStep::Hooks TrainLoop::HooksOf(int64_t step) {
  return {[this] { CheckGeneration(parts_); },
          [this, step](bool last) { strategy_.BeginForward(step, last); },
          [this](const at::Tensor& loss, const std::function<void()>& on_computed) {
            strategy_.Backward(loss, on_computed);
          },
          [this] {
            // From now on, other ranks may do this step.
            state_.open_data = local_step_.position();
            state_.position.computed = state_.is_open = true;
          }};
}

void TrainLoop::EndStep(int64_t step) {
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
  if (saves_.has_value()) saving_ = saves_->AfterStep(step + 1, exchange.all_equal);
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
  // A save that other ranks began in the previous generation is given up.
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

absl::Status TrainLoop::EvaluateAt(int64_t steps_done) {
  PACELINE_ASSIGN_OR_RETURN(const bool evaluated, EvaluateAfter(parts_, steps_done));
  after_a_break_ = after_a_break_ || evaluated;
  return absl::OkStatus();
}

absl::Status TrainLoop::Finish() {
  parts_.timer.Flush();
  PACELINE_RETURN_IF_ERROR(report_.Publish(parts_.timer.TakeFinished()));
  profiler_.Finish();
  return EndTraining(
      parts_, [this] { strategy_.AverageAll(); }, [this] { saves_->SaveAtEnd(config_.steps); });
}

}  // namespace paceline
