// For tests of the strategy: short forms of jobs and plans, and a rank with two small parameters.
#ifndef WORKER_TRAINER_COMM_TESTING_TEST_RANK_H_
#define WORKER_TRAINER_COMM_TESTING_TEST_RANK_H_

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/testing/fake_control.h"

namespace paceline {

inline TrainerConfig Job(int ranks, StrategyConfig::Kind kind, int64_t warmup = 0) {
  TrainerConfig config;
  config.member.world_size = ranks;
  config.startup_timeout = absl::Seconds(20);
  config.strategy.kind = kind;
  config.strategy.warmup_steps = warmup;
  return config;
}

inline TrainingPlan Plan(int64_t version, std::vector<PlanLevel> levels,
                         std::vector<int> gradients = {}) {
  TrainingPlan plan;
  plan.version = version;
  plan.levels = std::move(levels);
  plan.gradient_groups = std::move(gradients);
  return plan;
}

inline std::vector<PlanLevel> Ladder248() { return {{2, {2, 2, 2, 2}}, {4, {4, 4}}, {8, {8}}}; }

inline StrategyStart StartOf(Groups& groups, const TrainerConfig& config,
                             const TrainingPlan& plan) {
  StrategyStart start;
  start.plan = BuildFirstPlan(groups, config, plan);
  return start;
}

// A rank with two parameters, "a" [2] and "b" [].
struct TestRank {
  TestRank(const TrainerConfig& config_in, Groups& groups, const TrainingPlan& plan,
           float initial = 0, std::function<std::vector<at::Tensor>()> state = {})
      : config(config_in),
        a(at::full({2}, initial, at::kFloat).requires_grad_()),
        b(at::full({}, initial, at::kFloat).requires_grad_()),
        strategy(groups, config, StartOf(groups, config, plan), {{"a", a}, {"b", b}},
                 std::move(state), control) {}

  void Add(float value) {
    const at::NoGradGuard no_grad;
    a.add_(value);
    b.add_(2 * value);
  }

  StepExchange AfterStep(int64_t step, const at::Tensor& loss = {}) {
    return strategy.AfterStep(step, loss, [this] { ++averages; });
  }

  // Gradients of parameter "a" after a pass whose own gradients are `values`.
  std::vector<float> GradientsOf(int64_t step, std::vector<float> values) {
    a.mutable_grad().reset();
    b.mutable_grad().reset();
    for (size_t pass = 0; pass < values.size(); ++pass) {
      strategy.BeginForward(step, pass + 1 == values.size());
      const at::Tensor loss = a.sum().add(b).mul(values[pass]);
      strategy.Backward(loss, [this] { ++computed; });
    }
    EXPECT_EQ(b.grad().item<float>(), a.grad()[0].item<float>());
    return {a.grad()[0].item<float>(), a.grad()[1].item<float>()};
  }

  float value() const { return a[0].item<float>(); }

  const TrainerConfig& config;
  FakeControl control;
  at::Tensor a;
  at::Tensor b;
  Strategy strategy;
  int averages = 0;
  int computed = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_TESTING_TEST_RANK_H_
