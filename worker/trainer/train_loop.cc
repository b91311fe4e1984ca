#include "worker/trainer/train_loop.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/autocast.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/dry_step.h"
#include "worker/trainer/evaluation.h"
#include "worker/trainer/meeting.h"

namespace paceline {
namespace {

// Steps that may take as long as the ranks' meeting: libraries settle in the first, the
// gradients' buckets are laid out anew after it.
constexpr int64_t kStartupSteps = 2;

Profiler::Options ProfilerOptions(const TrainLoop::Parts& parts) {
  Profiler::Options options;
  options.directory = parts.profile_directory;
  options.rank = parts.config.rank();
  options.cuda = parts.config.cuda;
  options.start_memory = [&platform = parts.platform] { platform.RecordMemory(true); };
  options.write_memory = [&platform = parts.platform](const std::string& path) {
    const absl::Status status = platform.SnapshotMemory(path);
    platform.RecordMemory(false);
    return status;
  };
  options.on_result = [&control = parts.control](const ProfileResult& result) {
    control.SetProfile(result);
  };
  return options;
}

}  // namespace

std::string ExportPath(const std::string& file, int rank) {
  constexpr absl::string_view kSuffix = ".safetensors";
  return absl::StrCat(absl::StripSuffix(file, kSuffix), ".rank", rank, kSuffix);
}

TrainLoop::TrainLoop(const Parts& parts)
    : parts_(parts),
      config_(parts.config),
      parameters_(TensorsOf(parts.model.parameters())),
      state_(parts.state),
      first_step_(parts.state.position.step),
      strategy_(
          parts.groups, config_,
          StrategyStart{parts.plan, first_step_, /*resumes=*/!parts.begins, parts.state.memory,
                        parts.state.position.alone_below, parts.state.regrouped},
          parts.model.parameters(), [this] { return TensorsOf(parts_.optimizer.Slots()); },
          parts.control),
      profiler_(ProfilerOptions(parts)),
      chaos_(config_),
      report_({config_, parts.model, parts.control, parts.platform, strategy_,
               parts.state.communication}),
      learning_rate_(MakeLearningRate(parts.model.device())),
      graph_(config_.cuda_graph ? parts.platform.MakeStepGraph() : nullptr),
      after_a_break_(!parts.begins) {
  if (parts_.begins && state_.checkpoint == nullptr) {
    parts_.groups.all().CopyFromFirst(TensorsOf(parts_.model.buffers()));
  }
  parts_.model.SetActiveGroup(&parts_.groups.all());
  OpenData(first_step_);
  if (parts_.saver != nullptr) {
    parts_.saver->Enter({config_, parts_.groups, strategy_, [this] { return state_.data; }},
                        state_.position.step, &state_.saver);
  }
  parts_.control.SetPlanListener([this](const TrainingPlan& plan) {
    if (!parts_.has_successor()) strategy_.Prepare(plan);
  });
  state_.memory = StrategyMemory();  // The strategy has it now.
}

TrainLoop::~TrainLoop() {
  parts_.control.SetPlanListener(nullptr);
  parts_.model.SetActiveGroup(nullptr);
  if (parts_.saver != nullptr) parts_.saver->Leave();
}

void TrainLoop::OpenData(int64_t step) {
  const Member& as = step < state_.position.alone_below ? state_.alone_as : config_.member;
  if (loader_ != nullptr && data_as_ == as) return;
  data_as_ = as;
  loader_ = std::make_unique<BatchLoader>(
      parts_.train_data,
      LoaderOptions(config_, as, parts_.train_data, state_.data, parts_.model.device()));
}

void TrainLoop::CheckGeneration() const {
  if (parts_.is_over()) throw CollectiveError("training", "the generation is over");
}

absl::StatusOr<TrainEnd> TrainLoop::Run() {
  if (state_.is_open || !state_.position.exchanged) EndOpenStep();
  // The last one is of the mean of all ranks (Finish).
  const auto is_evaluated = [every = config_.eval_every, this](int64_t done) {
    return every > 0 && done > 0 && done % every == 0 && done < config_.steps;
  };
  if (!parts_.begins && is_evaluated(first_step_)) {  // One that was cut off.
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
  // 0 is no layout: the next generation's is another one again.
  position.layout = strategy_.is_regrouping() ? 0 : LayoutOf(config_.member, strategy_.plan());
  state_.member = config_.member;
  state_.memory = strategy_.Memory();
}

absl::Status TrainLoop::RunStep(int64_t step) {
  CheckGeneration();
  if (parts_.undo != nullptr) parts_.undo->Keep();
  state_.in_step = true;
  OpenData(step);
  StepResult& result = state_.open_result;
  result = StepResult();
  result.step = step;
  result.masked = profiler_.active() || after_a_break_ || saving_;
  const double learning_rate = LearningRate(config_.schedule, step);
  result.learning_rate = static_cast<float>(learning_rate);
  at::Tensor(learning_rate_).fill_(learning_rate);

  PACELINE_RETURN_IF_ERROR(graph_ != nullptr ? Replay(step, &result) : Compute(step, &result));
  state_.in_step = false;
  state_.is_open = true;
  state_.data = loader_->position();
  state_.position.computed = false;
  state_.position.step = step + 1;
  state_.position.exchanged = strategy_.ExchangeAt(step).size <= 1;
  EndStep(step);
  return absl::OkStatus();
}

void TrainLoop::EndStep(int64_t step) {
  StepResult& result = state_.open_result;
  const StepExchange exchange =
      strategy_.AfterStep(step, result.loss, [&] { parts_.timer.Enter(Phase::kAveraging, step); });
  state_.position.exchanged = true;
  result.averaging_group_size = exchange.group_size;
  result.wire_bytes = exchange.bytes;
  report_.Expect(step, MeanLoss(step, result.loss, exchange.mean_loss),
                 exchange.gradient_group_size);
  parts_.timer.EndStep(result);
  state_.is_open = false;
  if (parts_.saver != nullptr) saving_ = parts_.saver->AfterStep(step + 1, exchange.all_equal);
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
    report_.Expect(step, exchange.mean_loss, exchange.gradient_group_size);
    parts_.timer.EndStep(result);
  }
  // A save that other ranks began in the generation before is given up.
  if (exchanges && parts_.saver != nullptr) {
    saving_ = parts_.saver->AfterStep(step + 1, exchange.all_equal);
  }
}

absl::Status TrainLoop::Compute(int64_t step, StepResult* result) {
  StepTimer& timer = parts_.timer;
  const int64_t passes = data_as_.accumulation_steps;
  const double share = 1.0 / static_cast<double>(passes);
  for (int64_t pass = 0; pass < passes; ++pass) {
    CheckGeneration();
    const bool last = pass + 1 == passes;
    timer.Enter(Phase::kDataWait, step);
    const bool nan_loss = pass == 0 && chaos_.BeginStep(step);
    PACELINE_ASSIGN_OR_RETURN(const Batch batch, NextBatch(result));

    timer.Enter(Phase::kForward, step);
    chaos_.BeginForward();
    strategy_.BeginForward(step, last);
    at::Tensor loss = Loss(batch);
    chaos_.EndForward();
    if (nan_loss) loss = at::mul(loss, std::numeric_limits<float>::quiet_NaN());
    if (passes > 1) loss = at::mul(loss, share);
    result->loss = pass == 0 ? loss.detach() : result->loss.add_(loss.detach());

    timer.Enter(Phase::kBackward, step);
    chaos_.BeginBackward();
    strategy_.Backward(loss, [&] {
      chaos_.EndBackward();
      timer.Enter(Phase::kCommunication, step);
      if (!last) return;
      chaos_.BeforeExchange();
      // Other ranks may do the step from now on.
      state_.open_data = loader_->position();
      state_.position.computed = state_.is_open = true;
    });
    if (step == first_step_ && pass == 0) PACELINE_RETURN_IF_ERROR(CheckGradients());
  }
  timer.Enter(Phase::kOptimizer, step);
  const GradientNorms norms = UpdateParameters();
  result->grad_norm = norms.total;
  report_.ExpectNorms(norms.each);
  return absl::OkStatus();
}

absl::Status TrainLoop::Replay(int64_t step, StepResult* result) {
  parts_.timer.Enter(Phase::kDataWait, step);
  chaos_.BeginStep(step);
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, NextBatch(result));
  if (!graph_batch_.inputs.defined()) {
    graph_batch_ = batch;
    graph_batch_.inputs = at::empty_like(batch.inputs);
    graph_batch_.targets = at::empty_like(batch.targets);
    graph_result_.loss = at::empty({}, parameters_[0].options().requires_grad(false));
    graph_result_.grad_norm = at::empty_like(graph_result_.loss);
    graph_norms_ =
        at::empty({static_cast<int64_t>(parameters_.size())}, graph_result_.loss.options());
  }
  graph_batch_.inputs.copy_(batch.inputs, /*non_blocking=*/true);
  graph_batch_.targets.copy_(batch.targets, /*non_blocking=*/true);

  parts_.timer.Enter(Phase::kForward, step);
  chaos_.BeginForward();
  if (parts_.saver != nullptr) parts_.saver->BeforeChange();
  graph_->Run([&] {
    const at::Tensor loss = Loss(graph_batch_);
    loss.backward();
    const GradientNorms norms = UpdateParameters();
    graph_result_.loss.copy_(loss.detach());
    graph_result_.grad_norm.copy_(norms.total);
    graph_norms_.copy_(norms.each);
  });
  chaos_.EndForward();
  // The graph overwrites its results in the next step, before these are read.
  result->loss = graph_result_.loss.clone();
  result->grad_norm = graph_result_.grad_norm.clone();
  report_.ExpectNorms(graph_norms_.clone());
  return absl::OkStatus();
}

absl::Status TrainLoop::CheckGradients() const {
  std::vector<std::string> without;
  for (const NamedTensor& parameter : parts_.model.parameters()) {
    if (!parameter.tensor.grad().defined()) without.push_back(parameter.name);
  }
  if (without.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the loss does not depend on ", absl::StrJoin(without, ", "),
                   ": every parameter that requires a gradient must take part in it"));
}

absl::StatusOr<Batch> TrainLoop::NextBatch(StepResult* result) {
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader_->Next());
  result->samples += batch.samples;
  result->tokens += batch.tokens;
  result->workload += batch.workload;
  return batch;
}

at::Tensor TrainLoop::Loss(const Batch& batch) {
  const Autocast autocast(config_.bf16, parts_.model.device().type());
  return parts_.model.Loss(batch);
}

GradientNorms TrainLoop::UpdateParameters() {
  GradientNorms norms = NormsOfGradients(parameters_);
  if (config_.clip_grad_norm > 0) {
    ClipGradients(parameters_, norms.total, config_.clip_grad_norm);
  }
  at::Tensor skip;
  if (config_.on_nonfinite != NonFinite::kIgnore) skip = NotFinite(norms.total);
  if (parts_.saver != nullptr && graph_ == nullptr) parts_.saver->BeforeChange();
  parts_.optimizer.Step(learning_rate_, skip);
  return norms;
}

at::Tensor TrainLoop::MeanLoss(int64_t step, const at::Tensor& loss, at::Tensor mean) {
  if (config_.strategy.kind == StrategyConfig::Kind::kDdp && report_.LineIsDue(step)) {
    parts_.timer.Enter(Phase::kCommunication, step);
    mean = at::mul(loss, 1.0 / config_.member.world_size);
    parts_.groups.all().Sum(mean);
  }
  if (!mean.defined() || mean.is_cpu()) return mean;
  at::Tensor host = at::empty({}, mean.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(mean, /*non_blocking=*/true);
}

absl::Status TrainLoop::EvaluateAt(int64_t steps_done) {
  if (parts_.eval_data == nullptr || state_.position.evaluated == steps_done) {
    return absl::OkStatus();
  }
  PACELINE_ASSIGN_OR_RETURN(const EvaluationResult result,
                            Evaluate(config_, *parts_.eval_data, parts_.model, parts_.groups.all(),
                                     steps_done, [this] { CheckGeneration(); }));
  state_.position.evaluated = steps_done;
  after_a_break_ = true;
  parts_.control.SetEvaluation(result);
  PACELINE_LOG(INFO) << absl::StrFormat(
      "evaluated step=%d %sloss=%.9g samples=%d", result.step,
      result.accuracy ? absl::StrFormat("accuracy=%.6f ", *result.accuracy) : "", result.loss,
      result.samples);
  return absl::OkStatus();
}

absl::Status TrainLoop::Save(const std::string& path) {
  const absl::Status saved = SaveWeights(path, parts_.model);
  if (!saved.ok()) return absl::InternalError(saved.message());
  PACELINE_LOG(INFO) << "saved " << path;
  return absl::OkStatus();
}

absl::Status TrainLoop::Finish() {
  parts_.timer.Flush();
  PACELINE_RETURN_IF_ERROR(report_.Publish(parts_.timer.TakeFinished()));
  profiler_.Finish();
  // Rank 0 may write for long while the others wait for it.
  parts_.groups.SetTimeout(config_.startup_timeout);
  if (!config_.export_final.empty() && state_.exported_as != config_.rank()) {
    PACELINE_RETURN_IF_ERROR(Save(ExportPath(config_.export_final, config_.rank())));
    state_.exported_as = config_.rank();
  }
  if (!state_.position.final_mean) {
    strategy_.AverageAll();
    state_.position.final_mean = true;
  }
  if (parts_.saver != nullptr) parts_.saver->SaveAtEnd(config_.steps);
  PACELINE_RETURN_IF_ERROR(EvaluateAt(config_.steps));
  if (config_.rank() == 0 && !config_.checkpoint.directory.empty()) {
    PACELINE_RETURN_IF_ERROR(Save(config_.output_directory() + "/final.safetensors"));
  }
  if (parts_.saver != nullptr) parts_.saver->Finish();
  parts_.groups.all().Barrier();
  return absl::OkStatus();
}

}  // namespace paceline
