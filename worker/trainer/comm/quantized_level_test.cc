// Levels whose parameters travel in a format below fp32.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
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
  const bool is_byte = GetParam() == WireFormat::kInt8 || GetParam() == WireFormat::kFp8;
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
      EXPECT_EQ(exchange.bytes, 3 * (2 * ((is_byte ? 1 : 2) * 512 + 4) + 12));
      const auto steps = static_cast<float>(step - 2);
      // Ranks have moved by up to 12 since the last mean, and by 24 in the other parameter.
      EXPECT_NEAR(rank.value(), 3000 + 1.5 * steps, GetParam() == WireFormat::kFp8 ? 1.5 : 0.15);
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

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedLevelTest,
                         testing::Values(WireFormat::kInt8, WireFormat::kFp8, WireFormat::kFp16,
                                         WireFormat::kBf16));

}  // namespace
}  // namespace paceline
