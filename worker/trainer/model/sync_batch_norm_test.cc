#include "worker/trainer/model/sync_batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

constexpr int64_t kChannels = 5;
constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

// The data of all ranks together, with values far from 0; rank r has r + 1 of the samples.
struct Data {
  explicit Data(const std::vector<int>& active_ranks) : active(active_ranks) {
    at::manual_seed(7);
    int64_t count = 0;
    for (const int rank : active) count += rank + 1;
    samples = at::randn({count, kChannels, 3, 2}).mul(2).add(30);
    grad_y = at::randn({count, kChannels, 3, 2});
    weight = at::rand({kChannels}).add(0.5);
    bias = at::randn({kChannels});
  }

  BatchNormState MakeState() const {
    BatchNormState state;
    state.weight = weight.clone().requires_grad_(true);
    state.bias = bias.clone().requires_grad_(true);
    state.running_mean = at::zeros({kChannels});
    state.running_variance = at::ones({kChannels});
    return state;
  }

  at::Tensor OfRank(const at::Tensor& all, int rank) const {
    int64_t first = 0;
    for (const int other : active) first += other < rank ? other + 1 : 0;
    return all.narrow(0, first, rank + 1);
  }

  std::vector<int> active;
  at::Tensor samples;
  at::Tensor grad_y;
  at::Tensor weight;
  at::Tensor bias;
};

// The results of one step.
struct Outcome {
  at::Tensor y;
  at::Tensor grad_x;
  BatchNormState state;  // With the gradients of weight and bias.
};

Outcome Backward(const at::Tensor& x, const at::Tensor& y, const at::Tensor& grad_y,
                 const BatchNormState& state) {
  torch::autograd::backward({y}, {grad_y});
  return {y.detach(), x.grad(), state};
}

// Normalises over all samples at once.
Outcome Together(const at::Tensor& samples, const at::Tensor& grad_y, const BatchNormState& state) {
  const at::Tensor x = samples.detach().clone().requires_grad_(true);
  const at::Tensor y =
      at::batch_norm(x, state.weight, state.bias, state.running_mean, state.running_variance,
                     /*training=*/true, kMomentum, kEpsilon, /*cudnn_enabled=*/false);
  return Backward(x, y, grad_y, state);
}

Outcome Apart(const at::Tensor& samples, const at::Tensor& grad_y, const BatchNormState& state,
              Group& group) {
  const at::Tensor x = samples.detach().clone().requires_grad_(true);
  const at::Tensor y = SyncBatchNorm(x, state, kMomentum, kEpsilon, group);
  return Backward(x, y, grad_y, state);
}

void ExpectNear(const at::Tensor& actual, const at::Tensor& expected, const char* what) {
  const double error = actual.sub(expected).abs().max().item<double>();
  EXPECT_LT(error, 2e-6 * expected.abs().max().item<double>() + 1e-7) << what;
}

// Compares the active ranks with one rank that has all their samples.
void ExpectEqualToOneRank(int rank, Groups& groups, const Data& data) {
  const Outcome expected = Together(data.samples, data.grad_y, data.MakeState());
  const std::shared_ptr<Group> made = groups.Make(data.active, "batch norm", 1);
  Group& group = *made;
  const Outcome actual = Apart(data.OfRank(data.samples, rank), data.OfRank(data.grad_y, rank),
                               data.MakeState(), group);
  ExpectNear(actual.y, data.OfRank(expected.y, rank), "y");
  ExpectNear(actual.grad_x, data.OfRank(expected.grad_x, rank), "grad_x");
  ExpectNear(actual.state.running_mean, expected.state.running_mean, "running_mean");
  ExpectNear(actual.state.running_variance, expected.state.running_variance, "running_variance");
  const at::Tensor grad_weight = actual.state.weight.grad().clone();
  const at::Tensor grad_bias = actual.state.bias.grad().clone();
  group.Sum(grad_weight);
  group.Sum(grad_bias);
  ExpectNear(grad_weight, expected.state.weight.grad(), "grad_weight");
  ExpectNear(grad_bias, expected.state.bias.grad(), "grad_bias");
}

TEST(SyncBatchNormTest, EqualsOneNormalisationOfAllSamples) {
  const Data data({0, 1, 2});
  RunRanks(Ranks(3), [&](const TrainerConfig& config, Groups& groups) {
    ExpectEqualToOneRank(config.rank(), groups, data);
  });
}

TEST(SyncBatchNormTest, ARankThatIsNotActiveIsLeftOut) {
  const Data all({0, 1, 2});
  const Data some({0, 2});
  RunRanks(Ranks(3), [&](const TrainerConfig& config, Groups& groups) {
    ExpectEqualToOneRank(config.rank(), groups, all);
    if (config.rank() != 1) ExpectEqualToOneRank(config.rank(), groups, some);
    ExpectEqualToOneRank(config.rank(), groups, all);
  });
}

TEST(SyncBatchNormTest, KeepsTheTypeOfItsInput) {
  const Data data({0, 1});
  RunRanks(Ranks(2), [&](const TrainerConfig& config, Groups& groups) {
    const at::Tensor x =
        data.OfRank(data.samples, config.rank()).to(at::kBFloat16).requires_grad_(true);
    const at::Tensor y = SyncBatchNorm(x, data.MakeState(), kMomentum, kEpsilon, groups.all());
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    torch::autograd::backward({y}, {y.detach()});
    EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
  });
}

}  // namespace
}  // namespace paceline
