#include "worker/trainer/loop/slipstream_loop.h"

#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/checkpoint/output_directory.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/generation/state_transfer.h"
#include "worker/trainer/loop/fault.h"
#include "worker/trainer/loop/workload.h"

namespace paceline {
namespace {

constexpr char kProgress[] = "slipstream/progress";
constexpr int64_t kUnset = -1;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

absl::Duration InPhases(const StepRecord& record, std::initializer_list<Phase> phases) {
  uint64_t ns = 0;
  for (const Phase phase : phases) ns += record.phase_ns[static_cast<size_t>(phase)];
  return absl::Nanoseconds(static_cast<int64_t>(ns));
}

absl::Duration WithoutWaits(const StepRecord& record) {
  return InPhases(record, {Phase::kDataWait, Phase::kForward, Phase::kBackward,
                           Phase::kCommunication, Phase::kOptimizer});
}

double SecondsSince(uint64_t start_ns) {
  return static_cast<double>(MonotonicNanos() - start_ns) * 1e-9;
}

}  // namespace

SlipstreamLoop::SlipstreamLoop(const TrainingParts& parts)
    : parts_(parts),
      config_(parts.config),
      state_(parts.state),
      first_step_(parts.state.position.step),
      memory_(parts.state.slipstream),
      streams_(parts.platform.MakeDeviceStreams()),
      profiler_(ProfilerOptions(parts)),
      report_({config_, parts.workload.model(), parts.control, parts.platform,
               [this](RankFigures* figures) { return AddFigures(figures); },
               parts.state.communication, parts.state.reported, parts.state.has_begun}),
      local_step_({config_, parts.workload.model(), parts.timer, [] {}}, MakeHooks()),
      evaluation_(parts_),
      gradients_(parts.workload.model().parameters(), WireFormat::kFp32,
                 parts.config.model.unused_parameters),
      number_(first_step_),
      reported_steps_(first_step_),
      reported_rank_steps_(first_step_ * parts.config.member.world_size),
      learning_rate_(parts.workload.LearningRate(first_step_)),
      ready_for_(parts.config.member.generation),
      unreported_loss_(kUnknown),
      after_a_break_(!parts.begins) {}

SlipstreamLoop::~SlipstreamLoop() {
  if (!slipstream_.has_value()) return;
  parts_.control.SetPlanListener(nullptr);
  if (parts_.saver != nullptr) parts_.saver->Leave();
}

absl::Status SlipstreamLoop::Begin() {
  memory_.start = RankSteps(config_.member.world_size, first_step_);
  memory_.own_steps = state_.together_steps = first_step_;
  state_.together = state_.data;
  const at::Tensor progress = at::full({4}, kUnset, at::kLong);
  const int64_t* const values = progress.const_data_ptr<int64_t>();
  if (state_.checkpoint != nullptr) {
    PACELINE_RETURN_IF_ERROR(RestoreStrategyState(*state_.checkpoint, config_,
                                                  state_.checkpoint->manifest().ladder,
                                                  {{kProgress, progress}}));
  }
  if (values[0] != kUnset) {
    state_.data = {values[0], values[1]};
    memory_.own_steps = values[2];
    memory_.start.Add(values[3]);
  }
  if (!IsLocal(parts_.plan->plan.slipstream->mode)) {
    // A checkpoint may hold a state per rank.
    CopyOptimizerFromFirst(parts_.groups.all(), parts_.workload.optimizer(),
                           parts_.workload.attachments(), parts_.workload.model().device(),
                           config_.rank());
  }
  return absl::OkStatus();
}

absl::Status SlipstreamLoop::Resume() {
  PACELINE_RETURN_IF_ERROR(parts_.workload.CheckSlipstream());
  if (!memory_.rank.has_value()) {
    const absl::Status restored = Begin();
    if (!restored.ok()) return RestoreError(config_.restore_from, restored);
  }
  state_.checkpoint.reset();
  slipstream_.emplace(Slipstream::Parts{
      config_, parts_.groups, parts_.plan, parts_.workload.model(), parts_.workload.optimizer(),
      parts_.control, memory_, streams_.get(), parts_.workload.evaluates(),
      [this](int64_t step) { return parts_.workload.LearningRate(step); }});
  parts_.workload.OpenData(config_.member, state_.data);
  if (parts_.saver != nullptr) EnterSaver();
  parts_.control.SetPlanListener([this](const TrainingPlan& plan) {
    if (!parts_.has_successor()) slipstream_->Prepare(plan);
  });
  return absl::OkStatus();
}

void SlipstreamLoop::EnterSaver() {
  parts_.saver->Enter({config_, parts_.groups, [this] { return State(); },
                       [this](Manifest* manifest) {
                         TrainingPlan plan;
                         plan.slipstream = slipstream_->plan();
                         manifest->plan_epoch = plan.slipstream->version;
                         manifest->ladder = LadderText(plan);
                         KeepTogether(manifest->step);
                         manifest->data_epoch = state_.together.epoch;
                         manifest->data_offset = state_.together.offset;
                       },
                       [this](const SaveOrder& order) { slipstream_->OrderSave(order.number); }},
                      &state_.saver);
}

std::vector<StateTensor> SlipstreamLoop::State() const {
  const Attachments* const attachments = parts_.workload.attachments();
  // What is attached besides the optimizer may differ in any mode.
  const bool one_optimizer = attachments == nullptr && !IsLocal(slipstream_->plan().mode);
  std::vector<StateTensor> state = CollectState(
      config_, parts_.workload.model(), parts_.workload.optimizer(), attachments, one_optimizer);
  const RankSteps total = slipstream_->total();
  // At the end, more rank-steps may be done than the job asks for.
  const int64_t beyond =
      std::max<int64_t>(total.steps() - config_.steps, 0) * total.ranks() + total.remainder();
  state.push_back(
      {kProgress,
       at::tensor({state_.data.epoch, state_.data.offset, memory_.own_steps, beyond}, at::kLong),
       /*own=*/true});
  return state;
}

void SlipstreamLoop::KeepTogether(int64_t steps) {
  Sampler sampler(parts_.workload.SamplingAs(config_.member), state_.together);
  for (; state_.together_steps < steps; ++state_.together_steps) {
    for (int64_t pass = 0; pass < config_.member.accumulation_steps; ++pass) sampler.Skip();
  }
  state_.together = sampler.position();
}

absl::StatusOr<StepOrder> SlipstreamLoop::Next() {
  while (true) {
    switch (stage_) {
      case Stage::kEnter:
        stage_ = Stage::kOrdered;
        order_.step = first_step_;
        // After a restore, there may be nothing left to do.
        if (!parts_.begins || first_step_ < config_.steps) {
          PACELINE_ASSIGN_OR_RETURN(order_, NextOrder());
        }
        break;
      case Stage::kStepped:
        stage_ = Stage::kOrdered;
        if (!fault_.ok()) break;
        if (const int64_t generation = parts_.ready_for(); generation > ready_for_) {
          slipstream_->ReadyToLeave(generation);
          ready_for_ = generation;
        }
        break;
      case Stage::kOrdered:
        if (order_.kind == Order::Kind::kStop) {
          stage_ = Stage::kStopped;
          BeginStop(order_);
          if (order_.evaluates) {
            if (const auto evaluation = EvaluateAfter(order_.step)) return *evaluation;
          }
          break;
        }
        if (!fault_.ok()) {
          if (order_.kind != Order::Kind::kEnd) NextOrder().status().IgnoreError();
          return fault_;
        }
        if (order_.kind != Order::Kind::kEnd) {
          if (!parts_.control.stop_requested()) return BeginStep(order_);
          profiler_.Finish();
          return StepOrder{StepOrder::Kind::kDone};
        }
        state_.position.step = order_.step;
        if (order_.step < config_.steps) return StepOrder{StepOrder::Kind::kLeft};
        stage_ = Stage::kEvaluated;
        PACELINE_RETURN_IF_ERROR(Finish(order_));
        if (const auto evaluation = EvaluateAfter(config_.steps)) return *evaluation;
        break;
      case Stage::kStopped: {
        stage_ = Stage::kOrdered;
        EndStop();
        if (!fault_.ok()) {
          NextOrder().status().IgnoreError();
          return fault_;
        }
        PACELINE_ASSIGN_OR_RETURN(order_, NextOrder());
        break;
      }
      case Stage::kEvaluated:
        PACELINE_RETURN_IF_ERROR(CompleteEnd(parts_));
        return StepOrder{StepOrder::Kind::kDone};
    }
  }
}

std::optional<StepOrder> SlipstreamLoop::EvaluateAfter(int64_t steps_done) {
  if (!evaluation_.IsDue(steps_done)) return std::nullopt;
  evaluation_.Begin(steps_done);
  StepOrder order;
  order.kind = StepOrder::Kind::kEvaluate;
  order.member = config_.member;
  return order;
}

absl::StatusOr<SlipstreamLoop::Order> SlipstreamLoop::NextOrder() {
  CheckGeneration(parts_);
  const auto wait = [this] { parts_.timer.Enter(Phase::kRoundWait, number_); };
  absl::StatusOr<Order> order = slipstream_->Next([&](ComputeOrder::Wait) { wait(); });
  if (!order.ok()) {
    if (slipstream_->models_differ()) KeepEvidence();
    return order;
  }
  const bool ends = order->kind == Order::Kind::kEnd && order->step >= config_.steps;
  if (order->kind == Order::Kind::kStop || ends) {
    wait();
    parts_.groups.all().Barrier();
  }
  return order;
}

void SlipstreamLoop::KeepEvidence() const {
  if (config_.checkpoint.directory.empty()) return;
  const std::string directory =
      absl::StrCat(config_.output_directory(), "/",
                   DivergedName(slipstream_->rounds(), config_.member.generation));
  const std::string path =
      absl::StrCat(directory, "/", ShardName(config_.rank(), config_.member.world_size));
  std::vector<NamedTensor> tensors;
  for (const StateTensor& one : State()) tensors.push_back({one.name, one.tensor});
  absl::Status kept = PrepareOutputDirectory("checkpoint.directory", config_.checkpoint.directory,
                                             directory, config_.rank());
  if (kept.ok()) kept = SaveTensors(path, tensors);
  if (kept.ok()) {
    PACELINE_LOG(INFO) << "this rank's state is kept for inspection: " << path;
  } else {
    PACELINE_LOG(ERROR) << "this rank's state could not be kept: " << kept.message();
  }
}

LocalStep::Hooks SlipstreamLoop::MakeHooks() {
  return {[this] { CheckGeneration(parts_); }, [this](bool last) { gradients_.BeginForward(last); },
          [this](const at::Tensor& loss, const std::function<void()>& on_computed) {
            gradients_.Backward(loss, on_computed);
          },
          [] {}};
}

StepOrder SlipstreamLoop::BeginStep(const Order& order) {
  number_ = std::max(number_, std::min(order.step + order.ahead, config_.steps - 1));
  if (const auto request = parts_.control.profile_request()) {
    profiler_.BeforeStep(*request, number_);
  }
  if (FlipsBit(config_, memory_.own_steps)) slipstream_->FlipBit();
  report_.BeforeStep();
  step_began_ns_ = MonotonicNanos();
  if (parts_.undo != nullptr) parts_.undo->Keep();
  state_.in_step = true;
  StepOrder wanted;
  wanted.kind = StepOrder::Kind::kStep;
  wanted.number = number_;
  wanted.learning_rate = learning_rate_ = parts_.workload.LearningRate(order.step);
  wanted.updates = order.kind == Order::Kind::kUpdate;
  wanted.scheduled = true;
  wanted.member = config_.member;
  StepResult& result = state_.open_result;
  local_step_.Begin({number_, /*disturbed_as=*/memory_.own_steps, wanted.learning_rate,
                     wanted.member.accumulation_steps, wanted.updates},
                    &result);
  result.masked = profiler_.active() || after_a_break_;
  gradients_.SetGroup(wanted.updates ? parts_.plan->gradients.get() : nullptr);
  return wanted;
}

void SlipstreamLoop::Updated() {
  const GradientNorms& norms = local_step_.norms();
  const StepResult& result = state_.open_result;
  report_.ExpectNorms(norms.each);
  state_.in_step = false;
  ++memory_.own_steps;
  state_.data = parts_.workload.position();
  absl::Duration took = absl::Seconds(SecondsSince(step_began_ns_));
  double loss = kUnknown;
  if (result.loss.is_cpu()) {
    loss = result.loss.item<double>();
    const bool finite = std::isfinite(loss) && std::isfinite(norms.total.item<double>());
    if (!finite && config_.on_nonfinite == NonFinite::kStop) {
      slipstream_->SetFault("the loss or a gradient is not finite");
    }
  } else if (newest_.has_value()) {  // Does not wait for the device.
    took = WithoutWaits(*newest_);
    loss = std::exchange(unreported_loss_, kUnknown);
  }
  if (order_.kind == Order::Kind::kUpdate) {
    slipstream_->OnUpdated(took, loss);
  } else {
    slipstream_->OnGradient(took, loss);
  }
}

absl::Status SlipstreamLoop::EndStep() {
  StepResult& result = state_.open_result;
  parts_.timer.Enter(Phase::kAveraging, number_);
  const absl::StatusOr<Order> next = NextOrder();
  result.masked = result.masked || !next.ok() || next->kind == Order::Kind::kStop ||
                  next->kind == Order::Kind::kEnd;
  const bool line = next.ok() && TakeLine(*next);
  result.wire_bytes = slipstream_->TakeSentBytes() + gradients_.bytes();
  report_.Expect(line ? MeanLoss() : at::Tensor(), CountShared(), line);
  parts_.timer.EndStep(result);
  after_a_break_ = profiler_.AfterStep();
  if (!next.ok()) parts_.timer.Flush();
  // First publish this rank's own step.
  const absl::Status own = Publish();
  if (!next.ok()) return own.ok() ? next.status() : own;
  if (!own.ok()) {
    slipstream_->SetFault(std::string(own.message()));
    fault_ = own;
  }
  order_ = *next;
  stage_ = Stage::kStepped;
  return absl::OkStatus();
}

int SlipstreamLoop::CountShared() {
  if (gradients_.group() == nullptr) return 1;
  const int ranks = gradients_.group()->size();
  LevelFigures& level = state_.memory.figures[{ranks, false}];
  level.group_size = ranks;
  level.gradients = true;
  ++level.count;
  level.bytes += gradients_.bytes();
  return ranks;
}

at::Tensor SlipstreamLoop::MeanLoss() const {
  const SlipstreamFigures figures = slipstream_->figures();
  if (!figures.loss.has_value()) return {};
  return at::scalar_tensor(*figures.loss, at::kDouble);
}

bool SlipstreamLoop::TakeLine(const Order& next) {
  if (next.kind == Order::Kind::kEnd && next.step >= config_.steps) return true;
  const int64_t done = std::min(next.step, config_.steps - 1);
  return std::exchange(reported_steps_, done) / config_.log_every != done / config_.log_every;
}

double SlipstreamLoop::AddFigures(RankFigures* figures) {
  figures->slipstream = slipstream_->figures();
  for (const auto& [key, level] : state_.memory.figures) figures->levels.push_back(level);
  figures->drift = figures->slipstream->drift;
  figures->objects = parts_.workload.objects();
  const RankSteps total = slipstream_->total();
  figures->step = std::min(total.steps(), config_.steps);
  figures->learning_rate = learning_rate_;
  const int64_t rank_steps = total.steps() * total.ranks() + total.remainder();
  const int64_t since = rank_steps - std::exchange(reported_rank_steps_, rank_steps);
  return static_cast<double>(since) / static_cast<double>(figures->steps);
}

absl::Status SlipstreamLoop::Publish() {
  const std::vector<StepRecord> records = parts_.timer.TakeFinished();
  if (!records.empty()) {
    newest_ = records.back();
    unreported_loss_ = newest_->loss;
  }
  return report_.Publish(records);
}

void SlipstreamLoop::BeginStop(const Order& order) {
  state_.position.step = order.step;
  parts_.workload.LearningRate(order.step);  // Saved as what comes next needs it.
  parts_.timer.Enter(Phase::kIdle, std::max(order.step, number_ + 1));
  if (parts_.saver != nullptr && (order.saves || order.save_order > 0)) Save(order);
}

void SlipstreamLoop::EndStop() {
  if (parts_.saver != nullptr) parts_.saver->BeforeChange();
  slipstream_->OnStopped();
  after_a_break_ = true;
}

void SlipstreamLoop::Save(const Order& order) {
  Saver& saver = *parts_.saver;
  if (state_.saver.last_saved == order.step) {
    if (order.save_order > 0) {
      saver.GiveUp(order.save_order, absl::StrCat("step ", order.step, " was saved just before"));
    }
    return;
  }
  const uint64_t start_ns = MonotonicNanos();
  saver.Save(order.step, order.save_order,
             /*must=*/order.save_order > 0 || config_.checkpoint.wait_when_busy);
  saver.CountBlocked(SecondsSince(start_ns));
}

absl::Status SlipstreamLoop::Finish(const Order& order) {
  parts_.timer.Flush();
  PACELINE_RETURN_IF_ERROR(Publish());
  parts_.workload.LearningRate(config_.steps);
  profiler_.Finish();
  parts_.timer.Enter(Phase::kIdle, config_.steps);
  return PrepareEnd(
      parts_, [] {},
      [this, &order] {
        parts_.saver->SaveAtEnd(config_.steps, order.save_order,
                                order.saves || order.save_order > 0);
      });
}

void SlipstreamLoop::Leave() {
  if (!slipstream_.has_value()) return;
  if (std::exchange(state_.in_step, false)) parts_.undo->Undo();
  parts_.timer.Flush();
  const absl::Status published = Publish();
  if (!published.ok()) PACELINE_LOG(ERROR) << published.message();
  profiler_.Finish();
  state_.position.step = slipstream_->steps_done();
  KeepTogether(state_.position.step);
  state_.member = config_.member;
}

}  // namespace paceline
