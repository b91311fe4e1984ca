#include "worker/trainer/comm/outer_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace paceline {
namespace {

// Values that are stepped at a time, so that intermediate results are small.
constexpr int64_t kValuesAtOnce = int64_t{1} << 22;

}  // namespace

OuterStep::OuterStep(const OuterRule& rule, const at::Tensor& point)
    : factors_(FactorsOf(rule)),
      point_(point.detach().clone()),
      momentum_(at::zeros_like(point_)) {}

void OuterStep::SetPoint(const at::Tensor& point) { Resume(point, point_number_ + 1); }

void OuterStep::Resume(const at::Tensor& point, int64_t number) {
  const at::NoGradGuard no_grad;
  point_.copy_(point);
  point_number_ = number;
}

void OuterStep::SetMomentum(const at::Tensor& momentum) {
  const at::NoGradGuard no_grad;
  momentum_.copy_(momentum);
}

void OuterStep::Step(const at::Tensor& mean) {
  const at::NoGradGuard no_grad;
  latest_momentum_ = at::empty_like(momentum_);
  StepValues(0, mean, latest_momentum_);
}

void OuterStep::StepPart(int64_t first, const at::Tensor& mean) {
  const at::NoGradGuard no_grad;
  const at::Tensor momentum = at::empty_like(mean);
  StepValues(first, mean, momentum);
  point_.narrow(0, first, mean.numel()).copy_(mean);
  momentum_.narrow(0, first, mean.numel()).copy_(momentum);
}

void OuterStep::StepValues(int64_t first, const at::Tensor& mean,
                           const at::Tensor& momentum) const {
  const int64_t values = mean.numel();
  for (int64_t done = 0; done < values; done += kValuesAtOnce) {
    const int64_t count = std::min(kValuesAtOnce, values - done);
    const at::Tensor point = point_.narrow(0, first + done, count);
    at::Tensor result = mean.narrow(0, done, count);
    at::Tensor after = momentum.narrow(0, done, count);
    at::Tensor difference = at::sub(point, result);
    after.copy_(momentum_.narrow(0, first + done, count)).mul_(factors_.momentum).add_(difference);
    difference.mul_(factors_.difference).add_(at::mul(after, factors_.step));
    at::sub_out(result, point, difference);
  }
}

void OuterStep::Accept() { momentum_ = latest_momentum_; }

}  // namespace paceline
