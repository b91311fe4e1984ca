#include "worker/trainer/loop/local_step.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <string>

#include "common/core/status_macros.h"
#include "worker/trainer/loop/autocast.h"
#include "worker/trainer/loop/dry_step.h"

namespace paceline {

LocalStep::LocalStep(const Parts& parts)
    : parts_(parts),
      config_(parts.config),
      parameters_(TensorsOf(parts.model.parameters())),
      learning_rate_(MakeLearningRate(parts.model.device())),
      chaos_(config_),
      graph_(config_.cuda_graph ? parts.platform.MakeStepGraph() : nullptr) {}

void LocalStep::OpenData(const Member& member, const DataPosition& position) {
  if (loader_ != nullptr && data_as_ == member) return;
  data_as_ = member;
  loader_ = std::make_unique<BatchLoader>(
      parts_.data, LoaderOptions(config_, member, parts_.data, position, parts_.model.device()));
}

void LocalStep::Begin(int64_t number, double learning_rate, StepResult* result) {
  *result = StepResult();
  result->step = number;
  result->learning_rate = static_cast<float>(learning_rate);
  at::Tensor(learning_rate_).fill_(learning_rate);
}

absl::StatusOr<GradientNorms> LocalStep::Update(int64_t step, const Hooks& hooks,
                                                StepResult* result) {
  if (graph_ != nullptr) return Replay(step, result);
  PACELINE_RETURN_IF_ERROR(RunPasses(step, hooks, result));
  const GradientNorms norms = ClipToLimit();
  parts_.before_change();
  Apply(norms);
  result->grad_norm = norms.total;
  return norms;
}

absl::StatusOr<GradientNorms> LocalStep::MakeGradients(int64_t step, const Hooks& hooks,
                                                       StepResult* result) {
  PACELINE_RETURN_IF_ERROR(RunPasses(step, hooks, result));
  for (const at::Tensor& parameter : parameters_) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
  }
  const GradientNorms norms = NormsOfGradients(parameters_);
  result->grad_norm = norms.total;
  return norms;
}

absl::Status LocalStep::RunPasses(int64_t step, const Hooks& hooks, StepResult* result) {
  // Drop the gradients that MakeGradients left.
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  StepTimer& timer = parts_.timer;
  const int64_t number = result->step;
  const int64_t passes = data_as_.accumulation_steps;
  const double share = 1.0 / static_cast<double>(passes);
  for (int64_t pass = 0; pass < passes; ++pass) {
    hooks.before_pass();
    const bool last = pass + 1 == passes;
    timer.Enter(Phase::kDataWait, number);
    const bool nan_loss = pass == 0 && chaos_.BeginStep(step);
    PACELINE_ASSIGN_OR_RETURN(const Batch batch, NextBatch(result));

    timer.Enter(Phase::kForward, number);
    chaos_.BeginForward();
    hooks.begin_forward(last);
    at::Tensor loss = Loss(batch);
    chaos_.EndForward();
    if (nan_loss) loss = at::mul(loss, std::numeric_limits<float>::quiet_NaN());
    if (passes > 1) loss = at::mul(loss, share);
    result->loss = pass == 0 ? loss.detach() : result->loss.add_(loss.detach());

    timer.Enter(Phase::kBackward, number);
    chaos_.BeginBackward();
    hooks.backward(loss, [&] {
      chaos_.EndBackward();
      timer.Enter(Phase::kCommunication, number);
      if (!last) return;
      chaos_.BeforeExchange();
      hooks.on_gradients();
    });
  }
  CheckGradients();
  timer.Enter(Phase::kOptimizer, number);
  return absl::OkStatus();
}

absl::StatusOr<GradientNorms> LocalStep::Replay(int64_t step, StepResult* result) {
  parts_.timer.Enter(Phase::kDataWait, result->step);
  chaos_.BeginStep(step);
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, NextBatch(result));
  if (!graph_batch_.inputs.defined()) {
    graph_batch_ = batch;
    graph_batch_.inputs = at::empty_like(batch.inputs);
    graph_batch_.targets = at::empty_like(batch.targets);
    const auto floats = at::dtype(at::kFloat).device(parts_.model.device());
    graph_loss_ = at::empty({}, floats);
    graph_norms_.total = at::empty({}, floats);
    graph_norms_.each = at::empty({static_cast<int64_t>(parameters_.size())}, floats);
  }
  graph_batch_.inputs.copy_(batch.inputs, /*non_blocking=*/true);
  graph_batch_.targets.copy_(batch.targets, /*non_blocking=*/true);

  parts_.timer.Enter(Phase::kForward, result->step);
  chaos_.BeginForward();
  parts_.before_change();
  graph_->Run([&] {
    const at::Tensor loss = Loss(graph_batch_);
    loss.backward();
    CheckGradients();
    const GradientNorms norms = ClipToLimit();
    Apply(norms);
    graph_loss_.copy_(loss.detach());
    graph_norms_.total.copy_(norms.total);
    graph_norms_.each.copy_(norms.each);
  });
  chaos_.EndForward();
  // Copy the results: the graph overwrites them in the next step.
  result->loss = graph_loss_.clone();
  const GradientNorms norms{graph_norms_.each.clone(), graph_norms_.total.clone()};
  result->grad_norm = norms.total;
  return norms;
}

void LocalStep::CheckGradients() const {
  if (config_.model.unused_parameters) return;
  std::vector<std::string> without;
  for (const NamedTensor& parameter : parts_.model.parameters()) {
    if (!parameter.tensor.grad().defined()) without.push_back(parameter.name);
  }
  RequireGradients(without);
}

absl::StatusOr<Batch> LocalStep::NextBatch(StepResult* result) {
  PACELINE_ASSIGN_OR_RETURN(const Batch batch, loader_->Next());
  result->samples += batch.samples;
  result->tokens += batch.tokens;
  result->workload += batch.workload;
  return batch;
}

at::Tensor LocalStep::Loss(const Batch& batch) {
  const Autocast autocast(config_.bf16, parts_.model.device().type());
  return parts_.model.Loss(batch);
}

GradientNorms LocalStep::ClipToLimit() {
  GradientNorms norms = NormsOfGradients(parameters_);
  if (config_.clip_grad_norm > 0) {
    ClipGradients(parameters_, norms.total, config_.clip_grad_norm);
  }
  return norms;
}

void LocalStep::Apply(const GradientNorms& norms) {
  at::Tensor skip;
  if (config_.on_nonfinite != NonFinite::kIgnore) skip = NotFinite(norms.total);
  parts_.optimizer.Step(learning_rate_, skip);
}

}  // namespace paceline
