#include "worker/trainer/slipstream/optimizer_state.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

std::unique_ptr<Optimizer> Make(OptimizerConfig::Kind kind, double momentum) {
  OptimizerConfig config;
  config.kind = kind;
  config.momentum = momentum;
  return MakeOptimizer(
      config, {at::full({2, 3}, 1.0F).requires_grad_(), at::full({4}, 1.0F).requires_grad_()});
}

TEST(OptimizerStateTest, TheMeanIsThatOfThoseThatAddTheirs) {
  const auto optimizer = Make(OptimizerConfig::Kind::kAdamW, 0);
  for (const at::Tensor& slot : TensorsOf(optimizer->Slots())) slot.fill_(6);
  for (const at::Tensor& count : optimizer->StepCounts()) count.fill_(5);
  OptimizerState state(*optimizer);
  at::Tensor flat = state.Fill(/*has_state=*/true);
  EXPECT_EQ(flat.numel(), 2 * 10 + 2);
  flat.add_(4);  // From another rank whose count is 4.
  state.Apply(2);
  for (const at::Tensor& slot : TensorsOf(optimizer->Slots())) {
    EXPECT_EQ(slot.flatten()[3].item<float>(), 5);
  }
  // 4.5 rounds to even.
  for (const at::Tensor& count : optimizer->StepCounts()) EXPECT_EQ(count.item<float>(), 4);
}

TEST(OptimizerStateTest, WhoHasNothingAddsZeros) {
  const auto optimizer = Make(OptimizerConfig::Kind::kSgd, 0.9);
  for (const at::Tensor& slot : TensorsOf(optimizer->Slots())) slot.fill_(6);
  OptimizerState state(*optimizer);
  EXPECT_EQ(state.Fill(/*has_state=*/true).sum().item<float>(), 60);
  EXPECT_EQ(state.Fill(/*has_state=*/false).sum().item<float>(), 0);
}

TEST(OptimizerStateTest, AnOptimizerWithoutStateHasNothingToSend) {
  const auto optimizer = Make(OptimizerConfig::Kind::kSgd, 0);
  OptimizerState state(*optimizer);
  EXPECT_EQ(state.Fill(/*has_state=*/true).numel(), 0);
  state.Apply(2);
}

}  // namespace
}  // namespace paceline
