#include "worker/trainer/comm/step_riders.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

namespace paceline {
namespace {

enum Rider { kReady, kLoss, kLosses };

}  // namespace

at::Tensor MakeRiders(bool is_ready, const at::Tensor& loss, c10::Device device) {
  const at::NoGradGuard no_grad;
  at::Tensor riders = at::zeros({kStepRiders}, at::dtype(at::kFloat).device(device));
  if (is_ready) riders[kReady].fill_(1);
  if (loss.defined()) {
    riders[kLoss].copy_(loss.detach());
    riders[kLosses].fill_(1);
  }
  return riders;
}

bool AllReady(const at::Tensor& sums, int ranks) {
  return sums[kReady].item<double>() == static_cast<double>(ranks);
}

at::Tensor MeanLossOf(const at::Tensor& sums) {
  return sums[kLoss].div(sums[kLosses]).to(at::kFloat);
}

bool HasLosses(const at::Tensor& sums) { return sums[kLosses].item<double>() > 0; }

void SetUnready(const at::Tensor& riders) { riders[kReady].fill_(0); }

// All ranks' newest versions are equal if this rank's is their mean and the variance is 0.
bool HaveAll(Group& all, int64_t version, c10::Device device) {
  const auto number = static_cast<double>(version);
  at::Tensor sums = at::zeros({2}, at::dtype(at::kDouble).device(device));
  sums[0].fill_(number);
  sums[1].fill_(number * number);
  all.Sum(sums);
  const at::Tensor read = sums.cpu();
  const double* const sum = read.const_data_ptr<double>();
  return sum[0] == number * all.size() && sum[1] == number * number * all.size();
}

}  // namespace paceline
