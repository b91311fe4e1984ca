#include "worker/trainer/loop/compensated_update.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/trainer/loop/compensated_kernels.h"

namespace paceline {
namespace {

// Minimum elements per thread: less is not worth waking another one.
constexpr int64_t kGrain = 32768;
// Elements that the operations take at once, which bounds their temporary tensors.
constexpr int64_t kPiece = int64_t{1} << 24;

void Check(const at::Tensor& tensor, const at::Tensor& parameter) {
  TORCH_CHECK_VALUE(
      tensor.is_contiguous() && tensor.scalar_type() == at::kBFloat16 &&
          tensor.sizes() == parameter.sizes() && tensor.device() == parameter.device(),
      "a compensated update needs contiguous bfloat16 tensors of one shape on one "
      "device, and has one of ",
      tensor.sizes(), " ", tensor.scalar_type(), " for a parameter of ", parameter.sizes());
}

uint16_t* BitsOf(const at::Tensor& tensor) {
  return static_cast<uint16_t*>(tensor.mutable_data_ptr());
}

bool IsSkipped(const at::Tensor& skip) { return skip.defined() && skip.item<float>() != 0; }

// Writes the rounded values, unless the step is skipped.
void Put(const at::Tensor& value, const at::Tensor& skip, const at::Tensor& to) {
  const at::Tensor rounded = value.to(at::kBFloat16);
  to.copy_(skip.defined() ? at::where(skip.ne(0), to, rounded) : rounded);
}

// Adds `change` to weights `p`, of which it contains the compensation.
void PutWeights(const at::Tensor& p, const at::Tensor& change, const at::Tensor& skip,
                const CompensatedWeights& to) {
  const at::Tensor wide = p.add(change).to(at::kBFloat16).to(at::kFloat);
  Put(change.sub(wide.sub(p)), skip, to.compensation);
  Put(wide, skip, to.parameter);
}

// Calls `update` with views of all tensors' next elements, piece by piece.
template <typename F>
void ForPieces(const CompensatedWeights& weights, const UpdateInputs& inputs, const F& update) {
  const at::Tensor parameter = weights.parameter.detach().view({-1});
  const at::Tensor compensation = weights.compensation.view({-1});
  const at::Tensor gradient = inputs.gradient.contiguous().view({-1});
  for (int64_t begin = 0; begin < parameter.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, parameter.numel() - begin);
    const auto piece = [begin, count](const at::Tensor& tensor) {
      return tensor.view({-1}).narrow(0, begin, count);
    };
    update(CompensatedWeights{piece(parameter), piece(compensation)},
           piece(gradient).to(at::kFloat), piece);
  }
}

}  // namespace

void SetWeights(const at::Tensor& wide, const CompensatedWeights& weights) {
  const at::NoGradGuard no_grad;
  const at::Tensor parameter = weights.parameter.detach();
  const auto split = [&](const at::Tensor& sum) {
    parameter.copy_(sum);
    weights.compensation.copy_(sum.sub(parameter));
  };
  split(wide);
  // The compensation may have been rounded to half a unit in the parameter's last place: from a sum
  // that is such a tie, the parameter is rounded to even.
  split(parameter.to(at::kFloat).add_(weights.compensation));
}

void UpdateByAdamW(const AdamWRule& rule, const CompensatedWeights& weights, const at::Tensor& mean,
                   const at::Tensor& square, const UpdateInputs& inputs) {
  if (!weights.parameter.is_cpu()) {
    return UpdateByAdamWOperations(rule, weights, mean, square, inputs);
  }
  if (IsSkipped(inputs.skip)) return;
  const at::Tensor gradient = inputs.gradient.contiguous();
  for (const at::Tensor& one : {weights.parameter, weights.compensation, mean, square, gradient}) {
    Check(one, weights.parameter);
  }
  const auto rate = inputs.learning_rate.item<double>();
  const auto step = inputs.step.item<double>();
  AdamWScalars by;
  by.beta1 = static_cast<float>(rule.beta1);
  by.mean_share = static_cast<float>(1 - rule.beta1);
  by.beta2 = static_cast<float>(rule.beta2);
  by.square_share = static_cast<float>(1 - rule.beta2);
  by.epsilon = static_cast<float>(rule.epsilon);
  by.decay = static_cast<float>(rate * rule.weight_decay);
  by.step_size = static_cast<float>(rate / (1 - std::pow(rule.beta1, step)));
  by.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(rule.beta2, step)));
  uint16_t* const p = BitsOf(weights.parameter);
  uint16_t* const c = BitsOf(weights.compensation);
  uint16_t* const m = BitsOf(mean);
  uint16_t* const v = BitsOf(square);
  const auto* const g = static_cast<const uint16_t*>(gradient.const_data_ptr());
  at::parallel_for(0, gradient.numel(), kGrain, [&](int64_t begin, int64_t end) {
    AdamWElements(by, p + begin, c + begin, m + begin, v + begin, g + begin, end - begin);
  });
}

void UpdateBySgd(const SgdRule& rule, const CompensatedWeights& weights, const at::Tensor& velocity,
                 const UpdateInputs& inputs) {
  if (!weights.parameter.is_cpu()) return UpdateBySgdOperations(rule, weights, velocity, inputs);
  if (IsSkipped(inputs.skip)) return;
  const at::Tensor gradient = inputs.gradient.contiguous();
  for (const at::Tensor& one : {weights.parameter, weights.compensation, gradient}) {
    Check(one, weights.parameter);
  }
  if (velocity.defined()) Check(velocity, weights.parameter);
  SgdScalars by;
  by.learning_rate = static_cast<float>(inputs.learning_rate.item<double>());
  by.weight_decay = static_cast<float>(rule.weight_decay);
  by.momentum = static_cast<float>(rule.momentum);
  by.nesterov = rule.nesterov;
  uint16_t* const p = BitsOf(weights.parameter);
  uint16_t* const c = BitsOf(weights.compensation);
  uint16_t* const b = velocity.defined() ? BitsOf(velocity) : nullptr;
  const auto* const g = static_cast<const uint16_t*>(gradient.const_data_ptr());
  at::parallel_for(0, gradient.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const int64_t size = end - begin;
    if (b == nullptr) {
      SgdElements(by, p + begin, c + begin, g + begin, size);
    } else {
      MomentumElements(by, p + begin, c + begin, b + begin, g + begin, size);
    }
  });
}

// Order and types are those of the kernels: only powers may differ by their last bit.
void UpdateByAdamWOperations(const AdamWRule& rule, const CompensatedWeights& weights,
                             const at::Tensor& mean, const at::Tensor& square,
                             const UpdateInputs& inputs) {
  const at::NoGradGuard no_grad;
  const at::Tensor rate = inputs.learning_rate.to(at::kDouble);
  const at::Tensor step = inputs.step.to(at::kDouble);
  const auto correction = [&step](double beta) { return at::pow(beta, step).neg().add(1); };
  const at::Tensor step_size = rate.div(correction(rule.beta1)).to(at::kFloat);
  const at::Tensor inverse_root = correction(rule.beta2).sqrt().reciprocal().to(at::kFloat);
  const at::Tensor decay = rate.mul(rule.weight_decay).to(at::kFloat);
  ForPieces(weights, inputs,
            [&](const CompensatedWeights& to, const at::Tensor& g, const auto& piece) {
              const at::Tensor p = to.parameter.to(at::kFloat);
              const at::Tensor change = to.compensation.to(at::kFloat);
              const at::Tensor m = piece(mean).to(at::kFloat).mul_(rule.beta1);
              m.add_(g.mul(1 - rule.beta1));
              const at::Tensor v = piece(square).to(at::kFloat).mul_(rule.beta2);
              v.add_(g.mul(1 - rule.beta2).mul_(g));
              change.sub_(p.add(change).mul_(decay));
              const at::Tensor denominator = v.sqrt().mul_(inverse_root).add_(rule.epsilon);
              change.sub_(m.div(denominator).mul_(step_size));
              Put(m, inputs.skip, piece(mean));
              Put(v, inputs.skip, piece(square));
              PutWeights(p, change, inputs.skip, to);
            });
}

void UpdateBySgdOperations(const SgdRule& rule, const CompensatedWeights& weights,
                           const at::Tensor& velocity, const UpdateInputs& inputs) {
  const at::NoGradGuard no_grad;
  const at::Tensor rate = inputs.learning_rate.to(at::kFloat);
  ForPieces(weights, inputs,
            [&](const CompensatedWeights& to, const at::Tensor& gradient, const auto& piece) {
              const at::Tensor p = to.parameter.to(at::kFloat);
              const at::Tensor change = to.compensation.to(at::kFloat);
              const at::Tensor g = gradient.add(p.add(change).mul_(rule.weight_decay));
              at::Tensor direction = g;
              if (velocity.defined()) {
                const at::Tensor b = piece(velocity).to(at::kFloat).mul_(rule.momentum).add_(g);
                direction = rule.nesterov ? g.add(b.mul(rule.momentum)) : b;
                Put(b, inputs.skip, piece(velocity));
              }
              change.sub_(direction.mul(rate));
              PutWeights(p, change, inputs.skip, to);
            });
}

}  // namespace paceline
