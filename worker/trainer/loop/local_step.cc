#include "worker/trainer/loop/local_step.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline {
namespace {

// Numbers of the parameters that count for the norm at another position of the replica, which has
// the very same.
std::vector<int64_t> CopiesOf(const ModelTensors& model) {
  std::vector<int64_t> copies;
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const std::optional<Slice>& slice = model.parameters()[i].slice;
    if (slice.has_value() && slice->copy != 0) copies.push_back(static_cast<int64_t>(i));
  }
  return copies;
}

}  // namespace

LocalStep::LocalStep(const Parts& parts, Hooks hooks)
    : parts_(parts),
      config_(parts.config),
      hooks_(std::move(hooks)),
      parameters_(TensorsOf(parts.model.parameters())),
      chaos_(config_) {}

void LocalStep::Begin(const Order& order, StepResult* result) {
  order_ = order;
  result_ = result;
  pass_ = 0;
  phase_ = Phase::kIdle;
  *result = StepResult();
  result->step = order.number;
  result->learning_rate = static_cast<float>(order.learning_rate);
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void LocalStep::BeginPass() {
  ++pass_;
  hooks_.before_pass();
  Enter(Phase::kDataWait);
  nan_loss_ = pass_ == 1 && chaos_.BeginStep(order_.disturbed_as);
}

void LocalStep::BeginForward(const Counted& batch) {
  Count(batch);
  Enter(Phase::kForward);
  chaos_.BeginForward();
  hooks_.begin_forward(is_last_pass());
}

void LocalStep::Backward(at::Tensor loss, at::Tensor shown) {
  chaos_.EndForward();
  const auto adjust = [this](at::Tensor& value) {
    if (nan_loss_) value = at::mul(value, std::numeric_limits<float>::quiet_NaN());
    if (order_.passes > 1) value = at::mul(value, 1.0 / static_cast<double>(order_.passes));
  };
  adjust(loss);
  shown.defined() ? adjust(shown) : void(shown = loss);
  result_->loss = pass_ == 1 ? shown.detach() : result_->loss.add_(shown.detach());

  Enter(Phase::kBackward);
  chaos_.BeginBackward();
  hooks_.backward(loss, [this] {
    chaos_.EndBackward();
    Enter(Phase::kCommunication);
    if (!is_last_pass()) return;
    chaos_.BeforeExchange();
    hooks_.on_gradients();
  });
}

at::Tensor LocalStep::BeforeUpdate(std::optional<double> max_norm) {
  CheckGradients();
  Enter(Phase::kOptimizer);
  if (order_.updates) {
    norms_ = hooks_.on_prepared ? ClipTogether(max_norm) : ClipToLimit(max_norm);
    parts_.before_change();
  } else {
    for (const at::Tensor& parameter : parameters_) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(parameter);
    }
    norms_ = NormsOfGradients(parameters_);
  }
  result_->grad_norm = norms_.total;
  return order_.updates ? SkipFor(norms_) : at::Tensor();
}

void LocalStep::AfterBackwardUpdates(GradientNorms norms) {
  Enter(Phase::kOptimizer);
  norms_ = std::move(norms);
  result_->grad_norm = norms_.total;
}

void LocalStep::BeginReplay(const Counted& batch) {
  Count(batch);
  Enter(Phase::kForward);
  chaos_.BeginForward();
  parts_.before_change();
}

void LocalStep::EndReplay(const at::Tensor& loss, GradientNorms norms) {
  chaos_.EndForward();
  result_->loss = loss;
  norms_ = std::move(norms);
  result_->grad_norm = norms_.total;
}

void LocalStep::CheckGradients() const {
  if (config_.model.unused_parameters) return;
  std::vector<std::string> without;
  for (const NamedTensor& parameter : parts_.model.parameters()) {
    if (!parameter.tensor.grad().defined()) without.push_back(parameter.name);
  }
  RequireGradients(without);
}

GradientNorms LocalStep::ClipToLimit(std::optional<double> max_norm) const {
  GradientNorms norms = NormsOfGradients(parameters_);
  const double limit = max_norm.value_or(config_.clip_grad_norm);
  if (limit > 0) ClipGradients(parameters_, norms.total, limit);
  return norms;
}

// Reading the sum waits for the device: only then is the mean known to be whole.
GradientNorms LocalStep::ClipTogether(std::optional<double> max_norm) {
  GradientNorms own = NormsOfGradients(parameters_);
  const double limit = max_norm.value_or(config_.clip_grad_norm);
  at::Tensor each = own.each.to(at::kDouble).square();
  const std::vector<int64_t> copies = CopiesOf(parts_.model);
  if (!copies.empty()) each.index_fill_(0, at::tensor(copies, at::kLong).to(each.device()), 0.0);
  const double squares = each.sum().item<double>();
  Enter(Phase::kCommunication);
  const double total = hooks_.on_prepared(squares, limit);
  Enter(Phase::kOptimizer);
  return ClipPart(parameters_, std::move(own), total, limit);
}

at::Tensor LocalStep::SkipFor(const GradientNorms& norms) const {
  return config_.on_nonfinite == NonFinite::kIgnore ? at::Tensor() : NotFinite(norms.total);
}

void LocalStep::Enter(Phase phase) {
  phase_ = phase;
  parts_.timer.Enter(phase, order_.number);
}

void LocalStep::Count(const Counted& batch) {
  result_->samples += batch.samples;
  result_->tokens += batch.tokens;
  result_->workload += batch.workload;
}

}  // namespace paceline
