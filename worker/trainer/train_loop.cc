#include "worker/trainer/train_loop.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <limits>

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
#include "worker/trainer/evaluation.h"
#include "worker/trainer/fault.h"

namespace paceline {
namespace {

// Steps that may take as long as the ranks' meeting: libraries settle in the first, the
// gradients' buckets are laid out anew after it.
constexpr int64_t kStartupSteps = 2;

BatchLoader::Options LoaderOptions(const TrainLoop::Parts& parts) {
  const TrainerConfig& config = parts.config;
  BatchLoader::Options options;
  options.start = parts.start.position;
  options.sampler.samples = parts.train_data.size();
  options.sampler.rank = config.rank();
  options.sampler.world_size = config.world_size;
  options.sampler.batch = config.batch;
  options.sampler.shuffle = config.data.shuffle;
  options.sampler.seed = config.seed;
  options.threads = config.data.prefetch_threads;
  options.batches_ahead = config.data.prefetch_batches;
  options.device = parts.model.device();
  return options;
}

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
      strategy_(
          parts.groups, config_, parts.plan, parts.start.step, parts.model.parameters(),
          [this] { return TensorsOf(parts_.optimizer.Slots()); }, parts.control),
      loader_(parts.train_data, LoaderOptions(parts)),
      profiler_(ProfilerOptions(parts)),
      report_({config_, parts.model, parts.control, parts.platform, strategy_}),
      learning_rate_(MakeLearningRate(parts.model.device())),
      graph_(config_.cuda_graph ? parts.platform.MakeStepGraph() : nullptr) {
  if (parts_.start.checkpoint == nullptr) {
    parts_.groups.all().CopyFromFirst(TensorsOf(parts_.model.buffers()));
  }
  parts_.model.SetActiveGroup(&parts_.groups.all());
  if (!config_.checkpoint.directory.empty()) {
    saver_ = std::make_unique<Saver>(
        Saver::Parts{config_, parts_.model, parts_.optimizer, parts_.groups, strategy_,
                     parts_.control, parts_.platform, [this] { return loader_.position(); }},
        parts_.start.step, parts_.start.figures);
  }
  parts_.control.SetPlanListener([this](const TrainingPlan& plan) { strategy_.Prepare(plan); });
}

TrainLoop::~TrainLoop() { parts_.control.SetPlanListener(nullptr); }

absl::Status TrainLoop::Run() {
  for (int64_t step = parts_.start.step; step < config_.steps; ++step) {
    if (parts_.control.stop_requested()) {
      profiler_.Finish();
      return absl::OkStatus();
    }
    if (const auto request = parts_.control.profile_request()) {
      profiler_.BeforeStep(*request, step);
    }
    PACELINE_RETURN_IF_ERROR(RunStep(step));
    profiler_.AfterStep(step);
    after_a_break_ = false;

    PACELINE_RETURN_IF_ERROR(report_.Publish(parts_.timer.TakeFinished()));
    const int64_t done = step + 1;
    if (step + 1 == parts_.start.step + kStartupSteps) {
      parts_.groups.SetTimeout(config_.collective_timeout);
    }
    if (config_.eval_every > 0 && done % config_.eval_every == 0) {
      PACELINE_RETURN_IF_ERROR(EvaluateAt(done));
    }
  }
  return Finish();
}

absl::Status TrainLoop::Resume() {
  if (parts_.start.checkpoint == nullptr) return absl::OkStatus();
  const absl::Status restored = RestoreStrategyState(*parts_.start.checkpoint, config_,
                                                     strategy_.ladder(), strategy_.State());
  parts_.start.checkpoint.reset();
  if (!restored.ok()) return RestoreError(config_.restore_from, restored);
  return SettleBuckets();
}

absl::Status TrainLoop::SettleBuckets() {
  if (config_.world_size == 1 || parts_.start.step == config_.steps) return absl::OkStatus();
  const RandomNumbers random(parts_.model.device());
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : parts_.model.buffers()) {
    buffers.push_back(buffer.tensor.clone());
  }
  BatchLoader::Options options = LoaderOptions(parts_);
  options.threads = 0;
  BatchLoader loader(parts_.train_data, options);
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader.Next());
  const int64_t passes = std::min<int64_t>(config_.accumulation_steps, 2);
  for (int64_t step = 0; step < std::min(parts_.start.step, passes); ++step) {
    for (int64_t pass = 0; pass < passes; ++pass) {
      strategy_.BeginForward(parts_.start.step, /*last=*/pass + 1 == passes);
      strategy_.Backward(Loss(batch), [] {});
    }
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    at::Tensor(parts_.model.buffers()[i].tensor).copy_(buffers[i]);
  }
  random.Restore();
  return absl::OkStatus();
}

absl::Status TrainLoop::RunStep(int64_t step) {
  StepResult result;
  result.step = step;
  result.masked = profiler_.active() || after_a_break_ || saving_;
  const double learning_rate = LearningRate(config_.schedule, step);
  result.learning_rate = static_cast<float>(learning_rate);
  at::Tensor(learning_rate_).fill_(learning_rate);

  PACELINE_RETURN_IF_ERROR(graph_ != nullptr ? Replay(step, &result) : Compute(step, &result));

  const StepExchange exchange =
      strategy_.AfterStep(step, result.loss, [&] { parts_.timer.Enter(Phase::kAveraging, step); });
  result.averaging_group_size = exchange.group_size;
  result.wire_bytes = exchange.bytes;
  report_.Expect(step, MeanLoss(step, result.loss, exchange.mean_loss),
                 exchange.gradient_group_size);
  parts_.timer.EndStep(result);
  if (saver_ != nullptr) saving_ = saver_->AfterStep(step + 1, exchange.all_equal);
  return absl::OkStatus();
}

absl::Status TrainLoop::Compute(int64_t step, StepResult* result) {
  StepTimer& timer = parts_.timer;
  const double share = 1.0 / static_cast<double>(config_.accumulation_steps);
  for (int64_t pass = 0; pass < config_.accumulation_steps; ++pass) {
    timer.Enter(Phase::kDataWait, step);
    const bool nan_loss = pass == 0 && InjectFaults(config_, step);
    PACELINE_ASSIGN_OR_RETURN(const Batch batch, NextBatch(result));

    timer.Enter(Phase::kForward, step);
    strategy_.BeginForward(step, /*last=*/pass + 1 == config_.accumulation_steps);
    at::Tensor loss = Loss(batch);
    if (nan_loss) loss = at::mul(loss, std::numeric_limits<float>::quiet_NaN());
    if (config_.accumulation_steps > 1) loss = at::mul(loss, share);

    timer.Enter(Phase::kBackward, step);
    strategy_.Backward(loss, [&] { timer.Enter(Phase::kCommunication, step); });
    if (step == parts_.start.step && pass == 0) PACELINE_RETURN_IF_ERROR(CheckGradients());
    result->loss = pass == 0 ? loss.detach() : result->loss.add_(loss.detach());
  }
  timer.Enter(Phase::kOptimizer, step);
  const GradientNorms norms = UpdateParameters();
  result->grad_norm = norms.total;
  report_.ExpectNorms(norms.each);
  return absl::OkStatus();
}

absl::Status TrainLoop::Replay(int64_t step, StepResult* result) {
  parts_.timer.Enter(Phase::kDataWait, step);
  InjectFaults(config_, step);
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
  if (saver_ != nullptr) saver_->BeforeChange();
  graph_->Run([&] {
    const at::Tensor loss = Loss(graph_batch_);
    loss.backward();
    const GradientNorms norms = UpdateParameters();
    graph_result_.loss.copy_(loss.detach());
    graph_result_.grad_norm.copy_(norms.total);
    graph_norms_.copy_(norms.each);
  });
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
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader_.Next());
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
  if (saver_ != nullptr && graph_ == nullptr) saver_->BeforeChange();
  parts_.optimizer.Step(learning_rate_, skip);
  return norms;
}

at::Tensor TrainLoop::MeanLoss(int64_t step, const at::Tensor& loss, at::Tensor mean) {
  if (config_.strategy.kind == StrategyConfig::Kind::kDdp && report_.LineIsDue(step)) {
    parts_.timer.Enter(Phase::kCommunication, step);
    mean = at::mul(loss, 1.0 / config_.world_size);
    parts_.groups.all().Sum(mean);
  }
  if (!mean.defined() || mean.is_cpu()) return mean;
  at::Tensor host = at::empty({}, mean.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(mean, /*non_blocking=*/true);
}

absl::Status TrainLoop::EvaluateAt(int64_t steps_done) {
  if (parts_.eval_data == nullptr || evaluated_at_ == steps_done) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(
      const EvaluationResult result,
      Evaluate(config_, *parts_.eval_data, parts_.model, parts_.groups.all(), steps_done));
  evaluated_at_ = steps_done;
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
  if (!config_.export_final.empty()) {
    PACELINE_RETURN_IF_ERROR(Save(ExportPath(config_.export_final, config_.rank())));
  }
  strategy_.AverageAll();
  if (saver_ != nullptr) saver_->SaveAtEnd(config_.steps);
  PACELINE_RETURN_IF_ERROR(EvaluateAt(config_.steps));
  if (config_.rank() == 0 && !config_.checkpoint.directory.empty()) {
    PACELINE_RETURN_IF_ERROR(Save(config_.output_directory() + "/final.safetensors"));
  }
  if (saver_ != nullptr) saver_->Finish();
  parts_.groups.all().Barrier();
  return absl::OkStatus();
}

}  // namespace paceline
