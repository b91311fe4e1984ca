// Levels whose parameters travel in a format below fp32.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "worker/trainer/comm/quantized_mean.h"
#include "worker/trainer/comm/row_codec.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/comm/testing/test_rank.h"
#include "worker/trainer/loop/compensated_update.h"

namespace paceline {
namespace {

using Kind = StrategyConfig::Kind;

class QuantizedLevelTest : public testing::TestWithParam<WireFormat> {};

TEST_P(QuantizedLevelTest, KeepsTheRanksEqual) {
  const std::vector<PlanLevel> levels = {{2, {2, 2}}, {4, {4}, GetParam()}};
  const bool is_coarse = GetParam() == WireFormat::kInt4 || GetParam() == WireFormat::kFp8;
  const int64_t row_bytes = CodeBytes(*RowFormatOf(GetParam()), kRowValues) + 4;
  RunRanks(Job(4, Kind::kHsgd, 3), [&](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, levels));
    for (int64_t step = 0; step < 3; ++step) {  // Ranks stay equal in the warm-up.
      rank.Add(1000);
      rank.strategy.BeginForward(step, true);
      rank.AfterStep(step);
    }
    for (int64_t step = 3; step < 13; ++step) {
      rank.strategy.BeginForward(step, true);
      rank.Add(static_cast<float>(config.rank()));
      const StepExchange exchange = rank.AfterStep(step, at::full({}, 2, at::kFloat));
      EXPECT_EQ(exchange.all_equal, step % 4 == 0);
      if (!exchange.all_equal) continue;
      EXPECT_EQ(exchange.mean_loss.item<float>(), 2.0);
      // A row of 512 with its scale for each of four members, and three riders.
      EXPECT_EQ(exchange.bytes, 3 * (2 * row_bytes + 12));
      const auto steps = static_cast<float>(step - 2);
      // Ranks have moved by up to 12 since the last mean, and by 24 in the other parameter.
      EXPECT_NEAR(rank.value(), 3000 + 1.5 * steps, is_coarse ? 1.5 : 0.15);
      at::Tensor gathered = at::zeros({8}, at::kFloat);
      groups.all().Gather(gathered, rank.a.detach());
      EXPECT_EQ(gathered.min().item<float>(), gathered.max().item<float>());
    }
  });
}

// What a rank refers to follows from its weights alone: one that takes the mean from another rank,
// or begins from a checkpoint, has nothing else.
TEST_P(QuantizedLevelTest, OfCompensatedWeightsRefersToWhatTheyHold) {
  RunRanks(Job(2, Kind::kLocalSgd), [&](const TrainerConfig& config, Groups& groups) {
    const CompensatedWeights weights{at::zeros({3}, at::kBFloat16), at::zeros({3}, at::kBFloat16)};
    StrategyStart start = StartOf(groups, config, Plan(1, {{1, {2}, GetParam()}}));
    start.compensation = {weights.compensation};
    FakeControl control;
    at::Tensor parameter = weights.parameter;
    Strategy strategy(groups, config, std::move(start), {{"a", parameter.requires_grad_()}}, {},
                      control);
    at::Tensor mean = at::empty({3}, at::kFloat);
    for (int64_t i = 0; i < 3; ++i) {
      mean[i].fill_((1.0 + 0.1 * config.rank()) / static_cast<double>(3 + 4 * i));
    }
    SetWeights(mean, weights);
    mean = weights.parameter.detach().to(at::kFloat).add(weights.compensation);
    QuantizedMean(groups.row_codec(), *RowFormatOf(GetParam()), groups.all(),
                  at::zeros({3}, at::kFloat))
        .Average(mean, at::Tensor());
    EXPECT_TRUE(strategy.AfterStep(0, at::Tensor(), [] {}).all_equal);
    const at::Tensor held = weights.parameter.detach().to(at::kFloat).add(weights.compensation);
    ASSERT_FALSE(held.equal(mean)) << "weights hold the mean only nearly";
    const StrategyMemory memory = strategy.Memory();
    ASSERT_EQ(memory.levels.size(), 1U);
    EXPECT_TRUE(memory.levels[0].reference.equal(held));
    EXPECT_EQ(memory.levels[0].reference_number, 2);
    EXPECT_FALSE(memory.levels[0].before.has_value()) << "the mean counts";
  });
}

TEST_P(QuantizedLevelTest, ParametersOfOtherTypesHoldAMeanOfFloats) {
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16}) {
    RunRanks(Job(2, Kind::kLocalSgd), [&](const TrainerConfig& config, Groups& groups) {
      const at::Tensor a = at::zeros({3}, type).requires_grad_();
      FakeControl control;
      Strategy strategy(groups, config, StartOf(groups, config, Plan(1, {{1, {2}, GetParam()}})),
                        {{"a", a}}, {}, control);
      for (int round = 0; round < 2; ++round) {
        for (int64_t i = 0; i < 3; ++i) {
          a.detach()[i].add_((1.0 + 0.1 * config.rank()) / static_cast<double>(3 + 4 * i));
        }
        EXPECT_TRUE(strategy.AfterStep(round, at::Tensor(), [] {}).all_equal);
        const at::Tensor held = a.detach().to(at::kFloat);
        EXPECT_TRUE(held.to(type).equal(a.detach()));
        for (int64_t i = 0; i < 3; ++i) {
          const double mean = (round + 1) * 1.05 / static_cast<double>(3 + 4 * i);
          EXPECT_NEAR(held[i].item<float>(), mean, 0.08) << "a value of int4 has 1/14 of 0.37";
        }
        at::Tensor gathered = at::zeros({6}, at::kFloat);
        groups.all().Gather(gathered, held);
        EXPECT_TRUE(gathered.view({2, 3}).eq(held).all().item<bool>()) << "all ranks are equal";
        EXPECT_TRUE(strategy.Memory().levels[0].reference.equal(held));
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedLevelTest,
                         testing::Values(WireFormat::kInt4, WireFormat::kInt8, WireFormat::kFp8,
                                         WireFormat::kFp16, WireFormat::kBf16));

// What a rank has learnt in a round: in all values a little of the same.
at::Tensor Learnt(int rank, int round, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(1000 * rank + round));
  std::normal_distribution<float> normal(0.1F, 1);
  at::Tensor learnt = at::empty({count}, at::kFloat);
  for (int64_t i = 0; i < count; ++i) learnt.mutable_data_ptr<float>()[i] = normal(random);
  return learnt;
}

// Errors of a mean go into the momentum, too. If they were not sent later, they would add up to
// some ten times as much.
TEST(QuantizedOuterTest, Int4StaysNearTheExactStepRoundAfterRound) {
  constexpr int kRanks = 4;
  constexpr int64_t kValues = 3 * kRowValues + 101;
  PlanLevel level{1, {kRanks}, WireFormat::kInt4};
  level.outer = OuterRule{OuterRule::Kind::kNesterov, 0.7, 0.9};
  RunRanks(Job(kRanks, Kind::kLocalSgd), [&](const TrainerConfig& config, Groups& groups) {
    const at::Tensor a = at::zeros({kValues}, at::kFloat).requires_grad_();
    FakeControl control;
    Strategy strategy(groups, config, StartOf(groups, config, Plan(1, {level})), {{"a", a}}, {},
                      control);
    const at::Tensor point = at::zeros({kValues}, at::kDouble);
    const at::Tensor momentum = at::zeros({kValues}, at::kDouble);
    for (int round = 0; round < 20; ++round) {
      const at::Tensor change = at::zeros({kValues}, at::kDouble);
      for (int rank = 0; rank < kRanks; ++rank) {
        change.add_(Learnt(rank, round, kValues), 1.0 / kRanks);
      }
      momentum.mul_(0.9).sub_(change);
      point.add_(change, 0.7).sub_(momentum, 0.7 * 0.9);
      a.detach().add_(Learnt(config.rank(), round, kValues));
      EXPECT_TRUE(strategy.AfterStep(round, at::Tensor(), [] {}).all_equal);
      const at::Tensor error = a.detach().to(at::kDouble).sub(point);
      ASSERT_LT(error.norm().item<double>() / std::sqrt(kValues), 0.3) << round;
      at::Tensor gathered = at::zeros({kRanks * kValues}, at::kFloat);
      groups.all().Gather(gathered, a.detach());
      ASSERT_TRUE(gathered.view({kRanks, kValues}).eq(a.detach()).all().item<bool>()) << round;
    }
    EXPECT_GT(point.norm().item<double>() / std::sqrt(kValues), 5);
  });
}

}  // namespace
}  // namespace paceline
