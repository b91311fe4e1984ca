// The expected values are those of the rule in compensated_update.h, written in torch's operations
// one number after the other.
#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/loop/compensated_kernels.h"
#include "worker/trainer/loop/compensated_update.h"
#include "worker/trainer/loop/optimizer.h"

namespace paceline {
namespace {

using Kind = OptimizerConfig::Kind;

at::Tensor Rounded(const at::Tensor& x) { return x.to(at::kBFloat16); }
at::Tensor Wide(const at::Tensor& x) { return x.to(at::kFloat); }
// As a float tensor, so that no operation has a scalar of its own precision.
at::Tensor Scalar(double x) { return at::full({}, x, at::kFloat); }

// To the nearest float, which at::sqrt by MKL need not be.
at::Tensor Root(const at::Tensor& x) {
  const at::Tensor root = x.clone();
  float* const values = root.mutable_data_ptr<float>();
  for (int64_t i = 0; i < root.numel(); ++i) values[i] = std::sqrt(values[i]);
  return root;
}

// A tensor of weights with all state that an optimizer may have.
struct Reference {
  explicit Reference(const at::Tensor& initial)
      : p(initial.clone()),
        c(at::zeros_like(p)),
        mean(at::zeros_like(p)),
        square(at::zeros_like(p)),
        velocity(at::zeros_like(p)) {}

  void StepOf(const OptimizerConfig& config, const at::Tensor& gradient, double rate) {
    ++step;
    const at::Tensor g = Wide(gradient);
    const at::Tensor w = Wide(p).add(Wide(c));
    config.kind == Kind::kAdamW ? AdamW(config, g, w, rate) : Sgd(config, g, w, rate);
  }

  void AdamW(const OptimizerConfig& config, const at::Tensor& g, const at::Tensor& w, double rate) {
    const at::Tensor m = Scalar(config.beta1).mul(Wide(mean)).add(Scalar(1 - config.beta1).mul(g));
    const at::Tensor v =
        Scalar(config.beta2).mul(Wide(square)).add(Scalar(1 - config.beta2).mul(g).mul(g));
    const at::Tensor root = Scalar(1 / std::sqrt(1 - std::pow(config.beta2, step)));
    const at::Tensor denominator = Root(v).mul(root).add(Scalar(config.epsilon));
    const at::Tensor size = Scalar(rate / (1 - std::pow(config.beta1, step)));
    const at::Tensor decayed = Wide(c).sub(Scalar(rate * config.weight_decay).mul(w));
    mean = Rounded(m);
    square = Rounded(v);
    Add(decayed.sub(size.mul(m.div(denominator))));
  }

  void Sgd(const OptimizerConfig& config, const at::Tensor& gradient, const at::Tensor& w,
           double rate) {
    const at::Tensor g = gradient.add(Scalar(config.weight_decay).mul(w));
    at::Tensor direction = g;
    if (config.momentum > 0) {
      const at::Tensor b = Scalar(config.momentum).mul(Wide(velocity)).add(g);
      direction = config.nesterov ? g.add(Scalar(config.momentum).mul(b)) : b;
      velocity = Rounded(b);
    }
    Add(Wide(c).sub(Scalar(rate).mul(direction)));
  }

  void Add(const at::Tensor& change) {
    const at::Tensor before = Wide(p);
    p = Rounded(before.add(change));
    c = Rounded(change.sub(Wide(p).sub(before)));
  }

  at::Tensor p;
  at::Tensor c;
  at::Tensor mean;
  at::Tensor square;
  at::Tensor velocity;
  int step = 0;
};

OptimizerConfig AdamW() {
  OptimizerConfig config;
  config.compensated = true;
  config.kind = Kind::kAdamW;
  config.beta2 = 0.95;
  config.weight_decay = 0.1;
  return config;
}

OptimizerConfig Sgd(double momentum, bool nesterov) {
  OptimizerConfig config;
  config.compensated = true;
  config.momentum = momentum;
  config.nesterov = nesterov;
  config.weight_decay = 0.01;
  return config;
}

std::vector<OptimizerConfig> AllKinds() {
  return {AdamW(), Sgd(0, false), Sgd(0.9, false), Sgd(0.9, true)};
}

at::Tensor Weights(at::IntArrayRef shape) { return Rounded(at::randn(shape).mul(0.1)); }
at::Tensor Rate(double rate) { return at::full({}, rate, at::kDouble); }

// A number of elements that no vector divides, with enough of them for several threads.
constexpr int64_t kElements = 100'003;

TEST(CompensatedOptimizerTest, FollowsItsRuleToTheBit) {
  for (const OptimizerConfig& config : AllKinds()) {
    SCOPED_TRACE(absl::StrCat(config.kind == Kind::kAdamW ? "adamw" : "sgd", " ", config.momentum));
    at::manual_seed(7);
    const at::Tensor parameter = Weights({kElements}).requires_grad_(true);
    Reference expected(parameter.detach());
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {parameter});
    for (int step = 0; step < 5; ++step) {
      const at::Tensor gradient = Rounded(at::randn({kElements}));
      const double rate = 1e-3 * (step + 1);
      parameter.mutable_grad() = gradient;
      optimizer->Step(Rate(rate), at::full({}, 0.0, at::kFloat));
      expected.StepOf(config, gradient, rate);
    }
    EXPECT_TRUE(at::equal(parameter.detach(), expected.p));
    for (const OptimizerSlot& slot : optimizer->Slots()) {
      EXPECT_EQ(slot.of_weights, slot.name == kCompensation);
      const at::Tensor& state = slot.name == kCompensation  ? expected.c
                                : slot.name == "exp_avg"    ? expected.mean
                                : slot.name == "exp_avg_sq" ? expected.square
                                                            : expected.velocity;
      EXPECT_TRUE(at::equal(slot.tensors[0], state)) << slot.name;
    }
  }
}

const uint16_t* BitsOf(const at::Tensor& tensor) {
  return static_cast<const uint16_t*>(tensor.const_data_ptr());
}
uint16_t* MutableBitsOf(const at::Tensor& tensor) {
  return static_cast<uint16_t*>(tensor.mutable_data_ptr());
}

// An element alone is computed without vector instructions.
TEST(CompensatedOptimizerTest, VectorsAndSingleElementsGiveTheSameBits) {
  constexpr int64_t kSize = 1000;
  at::manual_seed(3);
  std::vector<at::Tensor> together;
  for (int i = 0; i < 4; ++i) together.push_back(Weights({kSize}));
  together[3].abs_();  // The second moment.
  together[0][5].fill_(std::numeric_limits<float>::infinity());
  together[2][6].fill_(std::numeric_limits<float>::quiet_NaN());
  std::vector<at::Tensor> alone;
  for (const at::Tensor& one : together) alone.push_back(one.clone());
  const at::Tensor gradient = Weights({kSize});
  const AdamWScalars adamw{0.9F, 0.1F, 0.95F, 0.05F, 1e-8F, 1e-4F, 1e-3F, 1.5F};
  const SgdScalars sgd{1e-2F, 1e-3F, 0.9F, true};
  const auto update = [&](const std::vector<at::Tensor>& to, int64_t begin, int64_t size) {
    std::vector<uint16_t*> bits;
    for (const at::Tensor& one : to) bits.push_back(MutableBitsOf(one) + begin);
    const uint16_t* const g = BitsOf(gradient) + begin;
    AdamWElements(adamw, bits[0], bits[1], bits[2], bits[3], g, size);
    MomentumElements(sgd, bits[0], bits[1], bits[2], g, size);
    SgdElements(sgd, bits[0], bits[1], g, size);
  };
  update(together, 0, kSize);
  for (int64_t i = 0; i < kSize; ++i) update(alone, i, 1);
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_TRUE(at::equal(together[i].view(at::kShort), alone[i].view(at::kShort))) << i;
  }
}

// Largest difference between two tensors.
double Distance(const at::Tensor& a, const at::Tensor& b) {
  return Wide(a).sub(Wide(b)).abs().max().item<double>();
}

// Makes one step on `weights` with `state`, as the kernels do or by torch's operations.
void Update(const OptimizerConfig& config, bool by_operations, const CompensatedWeights& weights,
            const std::vector<at::Tensor>& state, const UpdateInputs& inputs) {
  if (config.kind == Kind::kAdamW) {
    const AdamWRule rule{config.beta1, config.beta2, config.epsilon, config.weight_decay};
    const auto update = by_operations ? UpdateByAdamWOperations : UpdateByAdamW;
    return update(rule, weights, state[0], state[1], inputs);
  }
  const SgdRule rule{config.momentum, config.nesterov, config.weight_decay};
  const auto update = by_operations ? UpdateBySgdOperations : UpdateBySgd;
  update(rule, weights, config.momentum > 0 ? state[0] : at::Tensor(), inputs);
}

// What GPUs do, on a CPU.
TEST(CompensatedOptimizerTest, OperationsGiveWhatTheKernelsDo) {
  for (const OptimizerConfig& config : AllKinds()) {
    at::manual_seed(5);
    const at::Tensor gradient = Weights({31, 7});
    const at::Tensor initial = Weights({31, 7});
    std::vector<at::Tensor> results[2];
    for (const bool by_operations : {false, true}) {
      std::vector<at::Tensor>& all = results[by_operations ? 1 : 0];
      for (int i = 0; i < 2; ++i) all.push_back(initial.abs());
      const CompensatedWeights weights{initial.clone(), at::zeros_like(initial)};
      for (int step = 1; step <= 3; ++step) {
        Update(config, by_operations, weights, all,
               {gradient, Rate(1e-3), Scalar(step), Scalar(0)});
      }
      all.push_back(Wide(weights.parameter).add(weights.compensation));
      EXPECT_FALSE(at::equal(weights.parameter, initial));
    }
    // A power may differ by its last bit, and so may what is rounded after it: values are below 1.
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_LT(Distance(results[0][i], results[1][i]), i < 2 ? 0x1p-8 : 1e-5) << i;
    }
  }
}

TEST(CompensatedOptimizerTest, ASkippedStepChangesNothing) {
  for (const OptimizerConfig& config : AllKinds()) {
    for (const bool by_operations : {false, true}) {
      at::manual_seed(6);
      std::vector<at::Tensor> state;
      for (int i = 0; i < 4; ++i) state.push_back(Weights({50}).abs_());
      std::vector<at::Tensor> before;
      for (const at::Tensor& one : state) before.push_back(one.clone());
      const at::Tensor nan = at::full_like(state[0], std::numeric_limits<float>::quiet_NaN());
      Update(config, by_operations, {state[2], state[3]}, state,
             {nan, Rate(1e-3), Scalar(1), Scalar(1)});
      for (size_t i = 0; i < state.size(); ++i) EXPECT_TRUE(at::equal(state[i], before[i])) << i;
    }
    const at::Tensor parameter = Weights({5}).requires_grad_(true);
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {parameter});
    parameter.mutable_grad() = Weights({5});
    optimizer->Step(Rate(0.1), Scalar(1));
    for (const at::Tensor& one : optimizer->State()) EXPECT_EQ(one.abs().sum().item<double>(), 0);
  }
}

// The distance that 1000 updates of at most 2^-13 of the weight have gone, and that they should.
struct Drift {
  double gone = 0;
  double without_compensation = 0;
  double expected = 0;
};

Drift Train(const OptimizerConfig& config, double rate) {
  const at::Tensor parameter = Rounded(at::full({1}, 1.0)).requires_grad_(true);
  const at::Tensor forgetful = parameter.detach().clone().requires_grad_(true);
  const at::Tensor master = at::full({1}, 1.0, at::kFloat).requires_grad_(true);
  OptimizerConfig plain = config;
  plain.compensated = false;
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {parameter});
  const std::unique_ptr<Optimizer> other = MakeOptimizer(config, {forgetful});
  const std::unique_ptr<Optimizer> of_master = MakeOptimizer(plain, {master});
  for (int step = 0; step < 1000; ++step) {
    parameter.mutable_grad() = Rounded(at::full({1}, 0.5));
    forgetful.mutable_grad() = Rounded(at::full({1}, 0.5));
    master.mutable_grad() = at::full({1}, 0.5, at::kFloat);
    optimizer->Step(Rate(rate), {});
    other->Step(Rate(rate), {});
    at::Tensor(CompensationOf(*other)[0]).zero_();
    of_master->Step(Rate(rate), {});
  }
  return {1 - parameter.item<double>(), 1 - forgetful.item<double>(), 1 - master.item<double>()};
}

TEST(CompensatedOptimizerTest, SmallUpdatesAddUpOnlyWithCompensation) {
  const OptimizerConfig sgd = Sgd(0, false);
  for (const auto& [config, rate] : {std::pair(AdamW(), 1e-4), std::pair(sgd, 2e-4)}) {
    const Drift drift = Train(config, rate);
    EXPECT_GT(drift.expected, 0.08);
    EXPECT_NEAR(drift.gone, drift.expected, 0.05 * drift.expected);
    EXPECT_EQ(drift.without_compensation, 0);
  }
}

TEST(CompensatedOptimizerTest, DecayAloneAddsUpToo) {
  OptimizerConfig config = AdamW();
  config.weight_decay = 1;
  const at::Tensor parameter = Rounded(at::full({1}, 1.0)).requires_grad_(true);
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {parameter});
  for (int step = 0; step < 1000; ++step) {
    parameter.mutable_grad() = at::zeros_like(parameter.detach());
    optimizer->Step(Rate(1e-4), {});
  }
  EXPECT_NEAR(parameter.item<double>(), std::exp(-0.1), 0.005);
}

TEST(CompensatedOptimizerTest, AWeightIsSplitAndFoundAgain) {
  at::manual_seed(8);
  const at::Tensor wide = at::randn({kElements});
  const auto split = [](const at::Tensor& from) {
    const CompensatedWeights weights{at::zeros_like(Rounded(from)), at::zeros_like(Rounded(from))};
    SetWeights(from, weights);
    return weights;
  };
  const CompensatedWeights weights = split(wide);
  const at::Tensor sum = Wide(weights.parameter).add(weights.compensation);
  EXPECT_LE(sum.sub(wide).div(wide).abs().max().item<double>(), 0x1p-16);
  const CompensatedWeights again = split(sum);
  EXPECT_TRUE(at::equal(again.parameter, weights.parameter)) << "one in 1000 is a tie";
  EXPECT_TRUE(at::equal(again.compensation, weights.compensation));
}

TEST(CompensatedOptimizerTest, StateIsEightBytesPerParameterWithAdamW) {
  const at::Tensor parameter = Weights({100}).requires_grad_(true);
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(AdamW(), {parameter});
  size_t bytes = parameter.nbytes();
  for (const at::Tensor& one : TensorsOf(optimizer->Slots())) bytes += one.nbytes();
  EXPECT_EQ(bytes, 8 * 100U);
  EXPECT_EQ(AveragedState(*optimizer).size(), 2U);
  EXPECT_EQ(CompensationOf(*optimizer).size(), 1U);
}

TEST(CompensatedOptimizerTest, WhatHasNoGradientStaysWithItsState) {
  for (const OptimizerConfig& config : AllKinds()) {
    const at::Tensor seldom = Weights({3}).requires_grad_(true);
    const at::Tensor before = seldom.detach().clone();
    const at::Tensor always = Weights({3}).requires_grad_(true);
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config, {seldom, always});
    always.mutable_grad() = Weights({3});
    optimizer->Step(Rate(1e-2), {});
    EXPECT_TRUE(at::equal(seldom.detach(), before));
    for (const OptimizerSlot& slot : optimizer->Slots()) {
      EXPECT_EQ(slot.tensors[0].abs().sum().item<double>(), 0) << slot.name;
    }
    for (const at::Tensor& count : optimizer->StepCounts()) {
      EXPECT_EQ(count.item<float>(), count.is_same(optimizer->StepCounts()[0]) ? 0 : 1);
    }
  }
}

}  // namespace
}  // namespace paceline
