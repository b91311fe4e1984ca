// The effect of one plan on gradients, parameters and state.
#include "worker/trainer/comm/strategy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "worker/trainer/comm/model_averager.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/comm/testing/test_rank.h"
#include "worker/trainer/loop/compensated_update.h"

namespace paceline {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = StrategyConfig::Kind;

// Values of all ranks after steps 0 .. 9, where rank r adds r + 1; observed on PyTorch.
std::vector<std::vector<float>> Observe(int64_t warmup) {
  std::vector<std::vector<float>> seen(10, std::vector<float>(8));
  RunRanks(Job(8, Kind::kHsgd, warmup), [&](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, Ladder248()));
    const void* const storage = rank.a.const_data_ptr();
    for (size_t step = 0; step < seen.size(); ++step) {
      rank.Add(static_cast<float>(config.rank() + 1));
      rank.AfterStep(static_cast<int64_t>(step));
      seen[step][static_cast<size_t>(config.rank())] = rank.value();
      EXPECT_EQ(rank.b.item<float>(), 2 * rank.value());
    }
    EXPECT_EQ(rank.a.const_data_ptr(), storage);
  });
  return seen;
}

TEST(StrategyTest, HsgdGivesTheValuesOfPyTorch) {
  const auto plain = Observe(0);
  EXPECT_THAT(plain[0], Each(4.5));
  EXPECT_THAT(plain[1], ElementsAre(5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5));
  EXPECT_THAT(plain[2], ElementsAre(7.5, 7.5, 11.5, 11.5, 15.5, 15.5, 19.5, 19.5));
  EXPECT_THAT(plain[6], ElementsAre(17.5, 17.5, 21.5, 21.5, 41.5, 41.5, 45.5, 45.5));
  EXPECT_THAT(plain[9], ElementsAre(41.5, 42.5, 43.5, 44.5, 45.5, 46.5, 47.5, 48.5));
  const auto warm = Observe(3);
  EXPECT_THAT(warm[3], ElementsAre(4, 8, 12, 16, 20, 24, 28, 32));
  EXPECT_THAT(warm[5], ElementsAre(13.5, 14.5, 15.5, 16.5, 37.5, 38.5, 39.5, 40.5));
  EXPECT_THAT(warm[8], Each(40.5));
}

// In bfloat16 the weights of all ranks, and their mean, are 1.
TEST(StrategyTest, TheMeanOfCompensatedWeightsIsThatOfTheWholeWeights) {
  RunRanks(Job(4, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    const CompensatedWeights weights{at::empty({3}, at::kBFloat16), at::empty({3}, at::kBFloat16)};
    SetWeights(at::full({3}, 1 + 0x1p-10 * config.rank(), at::kFloat), weights);
    EXPECT_EQ(weights.parameter[2].item<float>(), 1);
    ModelAverager averager({weights.parameter}, {weights.compensation});
    EXPECT_EQ(averager.Flat()[2].item<float>(), 1 + 0x1p-10F * static_cast<float>(config.rank()));
    averager.Average({groups.all(), {}, at::Tensor(), /*measure=*/true});
    EXPECT_NEAR(averager.drift(), std::abs(1.5 - config.rank()) * 0x1p-10 * std::sqrt(3), 1e-5);
    EXPECT_EQ(weights.parameter[2].item<float>(), 1);
    EXPECT_EQ(weights.compensation[2].item<float>(), 1.5F * 0x1p-10F);
    EXPECT_EQ(averager.latest()[2].item<float>(), 1 + 1.5F * 0x1p-10F);
  });
}

TEST(StrategyTest, AStrategyAveragesWithTheCompensationItIsGiven) {
  RunRanks(Job(2, Kind::kLocalSgd), [](const TrainerConfig& config, Groups& groups) {
    const CompensatedWeights weights{at::zeros({3}, at::kBFloat16), at::zeros({3}, at::kBFloat16)};
    StrategyStart start = StartOf(groups, config, Plan(1, {{1, {2}}}));
    start.compensation = {weights.compensation};
    FakeControl control;
    at::Tensor parameter = weights.parameter;
    Strategy strategy(groups, config, std::move(start), {{"a", parameter.requires_grad_()}}, {},
                      control);
    SetWeights(at::full({3}, 1 + 0x1p-10 * config.rank(), at::kFloat), weights);
    EXPECT_TRUE(strategy.AfterStep(0, at::Tensor(), [] {}).all_equal);
    EXPECT_EQ(weights.compensation[0].item<float>(), 0x1p-11F);
  });
}

TEST(StrategyTest, LocalSgdCountsFromTheWarmup) {
  RunRanks(Job(2, Kind::kLocalSgd, 13), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {{4, {2}}}));
    std::vector<int64_t> averaged;
    for (int64_t step = 0; step < 23; ++step) {
      if (rank.AfterStep(step).group_size == 2) averaged.push_back(step);
    }
    EXPECT_THAT(averaged, ElementsAre(13, 17, 21));
    EXPECT_EQ(rank.averages, 3);
  });
}

TEST(StrategyTest, BeginsWithTheParametersOfRankZero) {
  RunRanks(Job(2, Kind::kDdp), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {}), static_cast<float>(5 + config.rank()));
    EXPECT_EQ(rank.value(), 5);
  });
}

TEST(StrategyTest, DdpTakesTheMeanOfAllGradients) {
  for (const WireFormat format : {WireFormat::kFp32, WireFormat::kFp16, WireFormat::kBf16}) {
    TrainerConfig job = Job(4, Kind::kDdp);
    job.gradient_format = format;
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      TestRank rank(config, groups, Plan(1, {}));
      for (int64_t step = 0; step < 3; ++step) {
        const auto own = static_cast<float>(config.rank() + step);
        EXPECT_THAT(rank.GradientsOf(step, {own}), Each(1.5F + static_cast<float>(step)));
        const StepExchange exchange = rank.AfterStep(step);
        EXPECT_TRUE(exchange.all_equal);
        EXPECT_EQ(exchange.group_size, 0);
        EXPECT_EQ(exchange.bytes, 2 * 3 * 3 * (format == WireFormat::kFp32 ? 4 : 2) / 4);
      }
      EXPECT_EQ(rank.computed, 3);
      EXPECT_EQ(rank.averages, 0);
      ASSERT_EQ(rank.strategy.figures().size(), 1U);
      EXPECT_EQ(rank.strategy.figures()[0].group_size, 4);
      EXPECT_TRUE(rank.strategy.figures()[0].gradients);
      EXPECT_EQ(rank.strategy.figures()[0].count, 3);
    });
  }
}

TEST(StrategyTest, QuantisedGradientsAreNearTheMean) {
  for (const WireFormat format : {WireFormat::kInt8, WireFormat::kFp8}) {
    TrainerConfig job = Job(4, Kind::kDdp);
    job.gradient_format = format;
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      TestRank rank(config, groups, Plan(1, {}));
      for (int64_t step = 0; step < 3; ++step) {
        const auto own = static_cast<float>(config.rank() + step);
        EXPECT_THAT(rank.GradientsOf(step, {0.25F * own, 0.75F * own}),
                    Each(FloatNear(1.5F + static_cast<float>(step), 1e-4F)));
        // Each of four ranks has a row of 512 with its scale, of which most is empty.
        EXPECT_EQ(rank.AfterStep(step).bytes, 2 * 3 * 516);
      }
      const std::vector<NamedTensor> state = rank.strategy.State();
      ASSERT_EQ(state.size(), 1U);
      EXPECT_EQ(state[0].name, "averager/gradient_rest");
      EXPECT_EQ(state[0].tensor.numel(), 3);
      const StrategyMemory memory = rank.strategy.Memory();
      EXPECT_TRUE(memory.gradient_rest.equal(state[0].tensor));
      EXPECT_TRUE(memory.gradient_rest_before.defined()) << "until the next step begins";
    });
  }
}

TEST(StrategyTest, AnAbortedMeanOfQuantisedGradientsIsACollectiveError) {
  TrainerConfig job = Job(2, Kind::kDdp);
  job.gradient_format = WireFormat::kInt8;
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {}));
    for (int64_t step = 0; step < 2; ++step) {
      rank.GradientsOf(step, {static_cast<float>(config.rank())});
      rank.AfterStep(step);
    }
    const at::Tensor rest = rank.strategy.Memory().gradient_rest.clone();
    groups.connections().ShutDown(/*store_port=*/0);
    groups.Abort();
    EXPECT_THROW(rank.GradientsOf(2, {1}), CollectiveError);
    EXPECT_TRUE(rank.strategy.Memory().gradient_rest_before.equal(rest)) << "it is repeated";
  });
}

TEST(StrategyTest, GradientsOfAStepAddUpBeforeTheExchange) {
  RunRanks(Job(2, Kind::kDdp), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {}));
    for (int64_t step = 0; step < 3; ++step) {
      const auto own = static_cast<float>(config.rank());
      EXPECT_THAT(rank.GradientsOf(step, {own, 10, own}), Each(11));
    }
    EXPECT_EQ(rank.strategy.figures()[0].count, 3);
  });
}

TEST(StrategyTest, AfterTheWarmupGradientsStayInTheirGroups) {
  for (const int size : {1, 2, 4}) {
    RunRanks(Job(4, Kind::kHsgd, 2), [&](const TrainerConfig& config, Groups& groups) {
      const std::vector<int> sizes(static_cast<size_t>(4 / size), size);
      TestRank rank(config, groups, Plan(1, {{4, {4}}}, size == 1 ? std::vector<int>() : sizes));
      for (int64_t step = 0; step < 5; ++step) {
        const auto own = static_cast<float>(config.rank());
        const int first = config.rank() / size * size;
        const float mean =
            step < 2 ? 1.5F : static_cast<float>(first) + static_cast<float>(size - 1) / 2;
        EXPECT_THAT(rank.GradientsOf(step, {own}), Each(mean)) << size << " " << step;
        const StepExchange exchange = rank.AfterStep(step);
        EXPECT_EQ(exchange.all_equal, step < 2 || step == 4);
      }
    });
  }
}

TEST(StrategyTest, MeansOverAllRanksCarryTheLossAndTheDrift) {
  RunRanks(Job(4, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {{2, {2, 2}}, {4, {4}}}));
    const at::Tensor loss = at::full({}, config.rank() + 1, at::kFloat);
    for (int64_t step = 0; step < 9; ++step) {
      rank.Add(static_cast<float>(config.rank()));
      const StepExchange exchange = rank.AfterStep(step, step == 8 ? at::Tensor() : loss);
      EXPECT_EQ(exchange.mean_loss.defined(), step == 0 || step == 4) << step;
      if (exchange.mean_loss.defined()) {
        EXPECT_EQ(exchange.mean_loss.item<float>(), 2.5);
      }
      EXPECT_EQ(exchange.all_equal, step % 4 == 0);
      EXPECT_EQ(exchange.group_size, step % 4 == 0 ? 4 : step % 2 == 0 ? 2 : 0);
      // Three floats of parameters and three riders.
      EXPECT_EQ(exchange.bytes, step % 4 == 0 ? 2 * 3 * 24 / 4 : step % 2 == 0 ? 2 * 12 / 2 : 0);
    }
    // Since step 4: twice its rank, mean of the pair, twice its rank; the mean over all is 6.
    const float pair = config.rank() < 2 ? 0.5F : 2.5F;
    const float moved = 6 - (2 * pair + 2 * static_cast<float>(config.rank()));
    EXPECT_NEAR(rank.strategy.drift(), std::abs(moved) * std::sqrt(2 * 1 + 4.0), 1e-5);
    const std::vector<LevelFigures> figures = rank.strategy.figures();
    ASSERT_EQ(figures.size(), 2U);
    EXPECT_EQ(figures[0].group_size, 2);
    EXPECT_EQ(figures[0].count, 2);
    EXPECT_EQ(figures[1].group_size, 4);
    EXPECT_EQ(figures[1].count, 3);
    EXPECT_EQ(figures[1].bytes, 3 * 36);
  });
}

// Ranks 0 and 1 hold a replica, 2 and 3 the other one.
TEST(StrategyTest, WithShardsALaneAveragesAndAllApplyTogether) {
  TrainerConfig job = Job(4, Kind::kLocalSgd);
  job.member.shards = 2;
  RunRanks(job, [](const TrainerConfig& config, Groups& groups) {
    const auto own = static_cast<float>(config.rank());
    const at::Tensor a = at::full({2}, own, at::kFloat).requires_grad_();
    FakeControl control;
    int prepared = 0;
    int applied = 0;
    StrategyStart start = StartOf(groups, config, Plan(1, {{2, {2}}}));
    start.on_prepared = [&] { ++prepared; };
    start.on_applied = [&] { ++applied; };
    Strategy strategy(groups, config, std::move(start), {{"a", a}}, {}, control);
    EXPECT_EQ(a[0].item<float>(), config.rank() % 2) << "as the lane's first rank";
    {
      const at::NoGradGuard no_grad;
      a.add_(own);
    }
    const StepExchange exchange = strategy.AfterStep(0, at::full({}, own, at::kFloat), [] {});
    EXPECT_EQ(a[0].item<float>(), config.rank() % 2 == 0 ? 1 : 3);
    EXPECT_EQ(exchange.group_size, 2);
    EXPECT_TRUE(exchange.all_equal);
    EXPECT_EQ(exchange.mean_loss.item<float>(), 1.5F) << "of all ranks";
    EXPECT_EQ(prepared, 1);
    EXPECT_EQ(applied, 1);
    EXPECT_EQ(strategy.ExchangeAt(0).size, 4);
    EXPECT_EQ(strategy.GradientGroupAt(1).size, 2) << "its replica";

    strategy.Prepare(Plan(2, {{1, {2}}}, {2}));
    control.AwaitPrepared(2);
    int64_t step = 1;
    while (strategy.plan().version < 2 && step < 10) strategy.AfterStep(step++, {}, [] {});
    ASSERT_EQ(strategy.plan().version, 2);
    EXPECT_EQ(strategy.GradientGroupAt(step).size, 4);
    EXPECT_EQ(strategy.GiveWord(step, config.rank() % 2 == 0 ? 9 : 16), 5);
    EXPECT_EQ(strategy.AfterStep(step, {}, [] {}).group_size, 2);
  });
}

TEST(StrategyTest, WithShardsAPlanHasTheGroupsOfAMesh) {
  TrainerConfig job = Job(8, Kind::kDdp);
  job.member.shards = 4;
  job.mesh = {2, 2};
  RunRanks(job, [](const TrainerConfig& config, Groups& groups) {
    const std::shared_ptr<const BuiltPlan> plan = BuildFirstPlan(groups, config, Plan(1, {}));
    const std::vector<std::shared_ptr<Group>>& mesh = plan->shards->mesh;
    ASSERT_EQ(mesh.size(), 2U);
    const int rank = config.rank();
    const int first = rank % 4 < 2 ? rank : rank - 2;
    EXPECT_THAT(mesh[0]->ranks(), ElementsAre(first, first + 2));
    at::Tensor sum = at::full({1}, rank, at::kFloat);
    mesh[1]->Sum(sum);
    EXPECT_EQ(sum.item<float>(), static_cast<float>(rank / 2 * 4 + 1)) << "of neighbours";
  });
}

// Of 4 ranks in 2 replicas, which average their parameters as int8 at every fourth step.
struct Int8Lane {
  Int8Lane(const TrainerConfig& its_config, Groups& its_groups)
      : config(its_config),
        groups(its_groups),
        plan(BuildFirstPlan(groups, config, Plan(1, {{2, {1, 1}}, {4, {2}, WireFormat::kInt8}}))) {}

  std::unique_ptr<Strategy> Start(int64_t step, const StrategyMemory* memory) {
    StrategyStart start;
    start.plan = plan;
    start.step = step;
    start.resumes = memory != nullptr;
    if (memory != nullptr) start.memory = *memory;
    start.on_prepared = [this] {
      if (is_cut) throw CollectiveError("word", "a test");
    };
    start.on_applied = [] {};
    const std::vector<NamedTensor> parameters{{"a", a}};
    return std::make_unique<Strategy>(groups, config, std::move(start), parameters,
                                      std::function<std::vector<at::Tensor>()>(), control);
  }

  void Step(Strategy& strategy, int64_t step) {
    strategy.BeginForward(step, true);
    {
      const at::NoGradGuard no_grad;
      a.add_(0.1 + 0.3 * config.rank());
    }
    strategy.AfterStep(step, {}, [] {});
  }

  const TrainerConfig& config;
  Groups& groups;
  const std::shared_ptr<const BuiltPlan> plan;
  FakeControl control;
  const at::Tensor a = at::zeros({2}, at::kFloat).requires_grad_();
  bool is_cut = false;  // Within the word.
};

TEST(StrategyTest, WithShardsAnInt8MeanCountsWhenItIsApplied) {
  TrainerConfig job = Job(4, Kind::kHsgd);
  job.member.shards = 2;
  RunRanks(job, [](const TrainerConfig& config, Groups& groups) {
    Int8Lane rank(config, groups);
    std::unique_ptr<Strategy> strategy = rank.Start(0, nullptr);
    for (int64_t step = 0; step < 4; ++step) rank.Step(*strategy, step);
    const int64_t number = strategy->Memory().levels[1].reference_number;
    rank.is_cut = true;
    EXPECT_THROW(rank.Step(*strategy, 4), CollectiveError);
    rank.is_cut = false;
    const StrategyMemory cut = strategy->Memory();
    strategy.reset();
    ASSERT_TRUE(cut.mean.defined());
    const at::Tensor mean = cut.mean.clone();
    EXPECT_FALSE(rank.a.detach().equal(mean));
    EXPECT_EQ(cut.levels[1].reference_number, number);
    EXPECT_TRUE(cut.levels[1].before.has_value());

    // Nobody has applied it: all make it again.
    std::unique_ptr<Strategy> repeated = rank.Start(5, &cut);
    repeated->AfterStep(4, {}, [] {});
    EXPECT_TRUE(rank.a.detach().equal(mean));
    const StrategyMemory after = repeated->Memory();
    EXPECT_EQ(after.levels[1].reference_number, number + 1);
    at::Tensor gathered = at::zeros({8}, at::kFloat);
    groups.all().Gather(gathered, rank.a.detach());
    EXPECT_TRUE(gathered.narrow(0, 0, 4).equal(gathered.narrow(0, 4, 4))) << "lanes are equal";

    // Somebody has: each applies its own, and refers to it.
    StrategyMemory own = cut;
    own.levels[1].before.reset();
    own.equal = {0, 4};
    const StrategyMemory applied = rank.Start(5, &own)->Memory();
    EXPECT_EQ(applied.levels[1].reference_number, number + 1);
    EXPECT_TRUE(applied.levels[1].reference.equal(after.levels[1].reference));
  });
}

TEST(StrategyTest, AverageAllMakesTheRanksEqualOnce) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {{8, {2}}}));
    rank.AfterStep(0);
    rank.strategy.AverageAll();
    EXPECT_EQ(rank.strategy.figures()[0].count, 1);
    rank.Add(static_cast<float>(config.rank()));
    rank.AfterStep(1);
    rank.strategy.AverageAll();
    EXPECT_EQ(rank.value(), 0.5);
    EXPECT_EQ(rank.strategy.figures()[0].count, 2);
  });
}

TEST(StrategyTest, OptimizerStateIsAveragedOnlyIfAskedFor) {
  for (const bool average : {false, true}) {
    TrainerConfig job = Job(2, Kind::kHsgd);
    job.strategy.average_optimizer_state = average;
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      const at::Tensor moment = at::full({2}, 2 * config.rank(), at::kFloat);
      std::vector<at::Tensor> state;  // Empty before the first step.
      TestRank rank(config, groups, Plan(1, {{2, {2}}}), 0, [&] { return state; });
      rank.AfterStep(0);
      state.push_back(moment);
      rank.Add(static_cast<float>(config.rank()));
      rank.AfterStep(2);
      EXPECT_EQ(rank.value(), 0.5);
      EXPECT_EQ(moment[1].item<float>(), average ? 1 : static_cast<float>(2 * config.rank()));
    });
  }
}

// As from the checkpoint of a streamed job, at whose end nothing is left to train.
TEST(StrategyTest, RanksThatBeginWithParametersOfTheirOwnAreMadeEqual) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    PlanLevel level{4, {2}};
    level.outer = OuterRule();
    level.outer->delay = 1;
    level.outer->alpha = 0.5;
    StrategyStart start = StartOf(groups, config, Plan(1, {level}));
    start.step = 6;
    FakeControl control;
    const at::Tensor a = at::full({2}, 3, at::kFloat).requires_grad_();
    Strategy strategy(groups, config, std::move(start), {{"a", a}},
                      std::function<std::vector<at::Tensor>()>(), control);
    {
      const at::NoGradGuard no_grad;
      a.add_(2 * config.rank());
    }
    const std::vector<at::Tensor> common = strategy.CommonParameters();
    ASSERT_THAT(common, SizeIs(1));
    EXPECT_EQ(common[0][0].item<float>(), 3);
    strategy.AverageAll();
    EXPECT_EQ(a[0].item<float>(), 4);
    EXPECT_THAT(strategy.CommonParameters(), IsEmpty());
  });
}

}  // namespace
}  // namespace paceline
