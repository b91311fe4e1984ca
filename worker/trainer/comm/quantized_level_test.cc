// Levels whose parameters travel in a format below fp32.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
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

// Two parameters, of 700 and 300 values, with a strategy of their own.
struct Streaming {
  Streaming(const TrainerConfig& its_config, Groups& its_groups, const TrainingPlan& its_plan)
      : config(its_config),
        groups(its_groups),
        // A generation has one first plan, and the test more.
        plan(std::make_shared<BuiltPlan>(BuildPlan(groups, its_plan, config.member, nullptr))) {
    Start(0, nullptr);
  }

  void Start(int64_t step, const StrategyMemory* memory) {
    StrategyStart start;
    start.plan = plan;
    start.step = step;
    start.resumes = memory != nullptr;
    if (memory != nullptr) start.memory = *memory;
    strategy.reset();
    strategy = std::make_unique<Strategy>(groups, config, std::move(start),
                                          std::vector<NamedTensor>{{"a", a}, {"b", b}},
                                          std::function<std::vector<at::Tensor>()>(), control);
  }
  void Compute(int64_t step) {
    strategy->BeginForward(step, true);
    const at::Tensor learnt = Learnt(config.rank(), static_cast<int>(step), 1000);
    a.detach().add_(learnt.narrow(0, 0, 700));
    b.detach().add_(learnt.narrow(0, 700, 300));
  }
  StepExchange Step(int64_t step) {
    Compute(step);
    return strategy->AfterStep(step, at::full({}, config.rank(), at::kFloat), [] {});
  }
  // The level's; the strategy's own tensors.
  LevelMemory memory() const { return strategy->Memory().levels[0]; }

  const TrainerConfig& config;
  Groups& groups;
  const std::shared_ptr<const BuiltPlan> plan;
  FakeControl control;
  const at::Tensor a = at::zeros({700}, at::kFloat).requires_grad_();
  const at::Tensor b = at::zeros({300}, at::kFloat).requires_grad_();
  std::unique_ptr<Strategy> strategy;
};

TrainingPlan StreamPlan(int64_t version, WireFormat format, int ranks, int64_t period,
                        int64_t fragments, int64_t delay, double alpha) {
  PlanLevel level{period, {ranks}, format};
  level.outer = OuterRule{OuterRule::Kind::kNesterov, 0.7, 0.9, fragments, delay, alpha};
  return Plan(version, {level});
}

class StreamedFormatTest : public testing::TestWithParam<WireFormat> {};

// Round after round, so that the errors are sent as they are there, too. What ranks keep of their
// own is made equal by hand.
TEST_P(StreamedFormatTest, TakenUpAtOnceItIsTheMeanThatIsWaitedFor) {
  RunRanks(Job(3, Kind::kLocalSgd), [&](const TrainerConfig& config, Groups& groups) {
    Streaming waiting(config, groups, StreamPlan(1, GetParam(), 3, 1, 1, 0, 0));
    Streaming streamed(config, groups, StreamPlan(2, GetParam(), 3, 1, 1, 0, 0.5));
    for (int64_t round = 0; round < 6; ++round) {
      const StepExchange expected = waiting.Step(round);
      const StepExchange exchange = streamed.Step(round);
      ASSERT_TRUE(streamed.memory().reference.equal(waiting.memory().reference)) << round;
      ASSERT_TRUE(streamed.memory().momentum.equal(waiting.memory().momentum)) << round;
      EXPECT_FALSE(streamed.a.equal(waiting.a)) << "a part is its own";
      EXPECT_EQ(exchange.mean_loss.item<float>(), 1);
      EXPECT_EQ(exchange.bytes, expected.bytes);
      EXPECT_TRUE(exchange.takes_average_up);
      streamed.a.detach().copy_(waiting.a.detach());
      streamed.b.detach().copy_(waiting.b.detach());
    }
    EXPECT_TRUE(waiting.memory().residuals.own.any().item<bool>());
    EXPECT_TRUE(streamed.memory().residuals.own.equal(waiting.memory().residuals.own));
    EXPECT_TRUE(streamed.memory().residuals.mean.equal(waiting.memory().residuals.mean));
  });
}

// With three fragments one of them is empty.
TEST_P(StreamedFormatTest, StaysNearTheAverageOfFloatsAndEqualOnAllRanks) {
  const std::tuple<int64_t, int64_t, double> rules[] = {
      {1, 1, 0.5}, {1, 4, 0}, {2, 0, 0.5}, {2, 2, 0.5}, {3, 1, 0.25}};
  for (const auto& [fragments, delay, alpha] : rules) {
    RunRanks(Job(3, Kind::kHsgd), [&, fragments = fragments, delay = delay, alpha = alpha](
                                      const TrainerConfig& config, Groups& groups) {
      const auto plan = [&](int64_t version, WireFormat format) {
        return StreamPlan(version, format, 3, 6, fragments, delay, alpha);
      };
      Streaming exact(config, groups, plan(1, WireFormat::kFp32));
      Streaming rounded(config, groups, plan(2, GetParam()));
      for (int64_t step = 0; step < 40; ++step) {
        exact.Step(step);
        if (!rounded.Step(step).takes_average_up) continue;
        const at::Tensor point = rounded.memory().reference;
        at::Tensor gathered = at::zeros({3 * point.numel()}, at::kFloat);
        groups.all().Gather(gathered, point);
        ASSERT_TRUE(gathered.view({3, -1}).eq(point).all().item<bool>()) << step;
        const at::Tensor error = point.sub(exact.memory().reference);
        ASSERT_LT(error.norm().item<double>() / std::sqrt(1000), 0.8) << fragments << " " << step;
        EXPECT_FALSE(rounded.memory().before.has_value());
      }
      EXPECT_GT(exact.memory().reference.norm().item<double>() / std::sqrt(1000), 2);
    });
  }
}

// Whoever has taken the average up gives its result to a rank that was cut off before. That one has
// sent all of its part.
TEST_P(StreamedFormatTest, WhoGetsTheResultGoesOnWithTheErrorsAfterIt) {
  RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    Streaming rank(config, groups, StreamPlan(1, GetParam(), 2, 6, 2, 2, 0.5));
    for (int64_t step = 0; step < 8; ++step) rank.Step(step);
    rank.Compute(8);
    const at::Tensor a = rank.a.detach().clone();
    const at::Tensor b = rank.b.detach().clone();
    // Point and momentum are the strategy's own tensors, and so become those of the result.
    StrategyMemory memory = rank.strategy->Memory();
    LevelMemory& level = memory.levels[0];
    ASSERT_TRUE(level.before.has_value());
    rank.strategy->AfterStep(8, {}, [] {});
    const at::Tensor taken_up = rank.a.detach().clone();
    const LevelMemory after = rank.memory();
    EXPECT_FALSE(after.before.has_value());
    EXPECT_TRUE(after.residuals.own.any().item<bool>());

    // What the rendezvous does.
    level.stream.position = {6, 6, 6};
    level.stream.sent = at::Tensor();
    level.before.reset();
    rank.a.detach().copy_(a);
    rank.b.detach().copy_(b);
    rank.Start(9, &memory);
    rank.strategy->BeginForward(9, true);
    EXPECT_TRUE(rank.a.detach().equal(taken_up));
    EXPECT_TRUE(rank.memory().residuals.own.equal(after.residuals.own));
    EXPECT_TRUE(rank.memory().residuals.mean.equal(after.residuals.mean));
  });
}

// Nothing of an average that is dropped is counted as sent.
TEST_P(StreamedFormatTest, AnAverageThatIsDroppedLeavesTheErrorsAsTheyWere) {
  RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    for (const int64_t steps : {1, 3}) {  // Before its second exchange, and afterwards.
      Streaming rank(config, groups, StreamPlan(steps, GetParam(), 2, 6, 1, 4, 0.5));
      for (int64_t step = 0; step < 6; ++step) rank.Step(step);
      const at::Tensor own = rank.memory().residuals.own.clone();
      EXPECT_TRUE(own.any().item<bool>());
      for (int64_t step = 6; step < 6 + steps; ++step) rank.Step(step);
      EXPECT_FALSE(rank.memory().residuals.own.equal(own)) << "if it is taken up";
      EXPECT_TRUE(rank.memory().residuals_to_send().own.equal(own));
      rank.strategy->AverageAll();
      EXPECT_FALSE(rank.strategy->is_averaging());
      EXPECT_TRUE(rank.memory().residuals_to_send().own.equal(own));
      for (int64_t step = 6 + steps; step < 18; ++step) rank.Step(step);
    }
  });
}

// A rank comes to an average, and to the step in which its second exchange begins, when the other
// has made all steps that it can make alone. If that waited earlier, both would wait for each
// other.
TEST_P(StreamedFormatTest, NobodyWaitsBeforeItsTurn) {
  absl::Notification before_turn;
  absl::Notification before_end;
  RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    Streaming rank(config, groups, StreamPlan(1, GetParam(), 2, 8, 1, 5, 0.5));
    const bool is_late = config.rank() == 1;
    for (int64_t step = 0; step < 14; ++step) {
      absl::Notification* const other = step == 8 ? &before_turn : &before_end;
      if (is_late && (step == 3 || step == 8)) {
        EXPECT_TRUE(other->WaitForNotificationWithTimeout(absl::Seconds(20))) << step;
      }
      EXPECT_EQ(rank.Step(step).takes_average_up, step == 5 || step == 13);
      if (!is_late && step == 4) before_end.Notify();
      if (!is_late && step == 10) before_turn.Notify();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, StreamedFormatTest,
                         testing::Values(WireFormat::kInt4, WireFormat::kInt8, WireFormat::kFp8,
                                         WireFormat::kFp16, WireFormat::kBf16));

}  // namespace
}  // namespace paceline
