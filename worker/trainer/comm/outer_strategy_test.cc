// Outer steps at the levels of a ladder, beside a model of one number per rank.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/comm/testing/test_rank.h"
#include "worker/trainer/loop/compensated_update.h"

namespace paceline {
namespace {

using testing::SizeIs;
using Kind = StrategyConfig::Kind;

constexpr OuterRule kNesterov{OuterRule::Kind::kNesterov, 0.7, 0.9};
constexpr OuterRule kSlowMo{OuterRule::Kind::kSlowMo, 1, 0.5};

PlanLevel Level(int64_t period, std::vector<int> groups, std::optional<OuterRule> outer = {},
                WireFormat format = WireFormat::kFp32) {
  PlanLevel level;
  level.period = period;
  level.groups = std::move(groups);
  level.format = format;
  level.outer = outer;
  return level;
}

// What rank r has learnt in a step.
double Learnt(int rank, int64_t step) {
  return 0.1 * (rank + 1) + 0.3 * std::sin(static_cast<double>(7 * rank + 3 * step));
}

// The parameters of all ranks, by the rules of docs/outer-steps.md.
class Reference {
 public:
  Reference(TrainingPlan plan, Kind kind, int ranks, int64_t warmup)
      : plan_(std::move(plan)),
        kind_(kind),
        warmup_(warmup),
        values_(static_cast<size_t>(ranks)),
        points_(plan_.levels.size(), values_),
        momenta_(plan_.levels.size(), values_) {}

  void Step(int64_t step) {
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      values_[rank] += Learnt(static_cast<int>(rank), step);
    }
    if (step < warmup_) {  // By the mean of all gradients.
      double mean = 0;
      for (const double value : values_) mean += value / static_cast<double>(values_.size());
      values_.assign(values_.size(), mean);
      for (std::vector<double>& point : points_) point = values_;
      return;
    }
    const int64_t counted = kind_ == Kind::kLocalSgd ? step - warmup_ : step;
    for (size_t level = plan_.levels.size(); level-- > 0;) {
      if (counted % plan_.levels[level].period == 0) return Average(level);
    }
  }

  double value(int rank) const { return values_[static_cast<size_t>(rank)]; }

 private:
  void Average(size_t level) {
    size_t first = 0;
    for (const int size : plan_.levels[level].groups) {
      const size_t end = first + static_cast<size_t>(size);
      double mean = 0;
      for (size_t rank = first; rank < end; ++rank) mean += values_[rank] / size;
      for (size_t rank = first; rank < end; ++rank) values_[rank] = After(level, rank, mean);
      for (size_t other = 0; other < plan_.levels.size(); ++other) SetPoints(other, first, end);
      first = end;
    }
  }

  // Ranks `first` to `end` are equal: the groups of `level` among them begin from there.
  void SetPoints(size_t level, size_t first, size_t end) {
    size_t group = 0;
    for (const int size : plan_.levels[level].groups) {
      const size_t group_end = group + static_cast<size_t>(size);
      for (size_t rank = group; rank < group_end; ++rank) {
        if (first <= group && group_end <= end) points_[level][rank] = values_[rank];
      }
      group = group_end;
    }
  }

  double After(size_t level, size_t rank, double mean) {
    const std::optional<OuterRule>& rule = plan_.levels[level].outer;
    if (!rule.has_value()) return mean;
    double& momentum = momenta_[level][rank];
    const double difference = points_[level][rank] - mean;
    momentum = rule->momentum * momentum + difference;
    const bool looks_ahead = rule->kind == OuterRule::Kind::kNesterov;
    const double change = looks_ahead ? difference + rule->momentum * momentum : momentum;
    return points_[level][rank] - rule->learning_rate * change;
  }

  const TrainingPlan plan_;
  const Kind kind_;
  const int64_t warmup_;
  std::vector<double> values_;
  std::vector<std::vector<double>> points_;  // By level and rank.
  std::vector<std::vector<double>> momenta_;
};

void Learn(const TestRank& rank, int64_t step, int64_t warmup, int ranks) {
  double learnt = Learnt(rank.config.rank(), step);
  if (step < warmup) {  // As synchronous steps do.
    learnt = 0;
    for (int other = 0; other < ranks; ++other) learnt += Learnt(other, step) / ranks;
  }
  const at::NoGradGuard no_grad;
  at::Tensor(rank.a).add_(learnt);
  at::Tensor(rank.b).add_(2 * learnt);
}

struct Case {
  std::string name;
  Kind kind;
  int64_t warmup;
  std::vector<PlanLevel> levels;
  double tolerance = 2e-5;
};

std::vector<Case> Cases() {
  return {
      {"diloco", Kind::kHsgd, 1, {Level(4, {8}, kNesterov)}},
      {"without warm-up", Kind::kHsgd, 0, {Level(4, {8}, kNesterov)}},
      {"local sgd", Kind::kLocalSgd, 3, {Level(4, {8}, kSlowMo)}},
      {"above plain means", Kind::kHsgd, 3, {Level(2, {2, 2, 2, 2}), Level(8, {8}, kSlowMo)}},
      {"below a plain mean", Kind::kHsgd, 0, {Level(2, {4, 4}, kNesterov), Level(6, {8})}},
      {"at each level",
       Kind::kHsgd,
       2,
       {Level(2, {2, 2, 2, 2}, kSlowMo), Level(4, {3, 5}, kNesterov), Level(8, {8}, kNesterov)}},
      // Rounding errors come later.
      {"int8",
       Kind::kHsgd,
       1,
       {Level(1, {4, 4}), Level(4, {8}, kNesterov, WireFormat::kInt8)},
       0.1},
      {"int4",
       Kind::kHsgd,
       1,
       {Level(1, {4, 4}), Level(4, {8}, kNesterov, WireFormat::kInt4)},
       0.15},
  };
}

TEST(OuterStrategyTest, RanksHaveTheParametersOfTheFormulas) {
  for (const Case& one : Cases()) {
    RunRanks(Job(8, one.kind, one.warmup), [&](const TrainerConfig& config, Groups& groups) {
      TestRank rank(config, groups, Plan(1, one.levels));
      Reference reference(Plan(1, one.levels), one.kind, 8, one.warmup);
      for (int64_t step = 0; step < 40; ++step) {
        rank.strategy.BeginForward(step, true);
        Learn(rank, step, one.warmup, 8);
        const StepExchange exchange = rank.AfterStep(step);
        reference.Step(step);
        ASSERT_NEAR(rank.value(), reference.value(config.rank()),
                    one.tolerance * (1 + std::abs(rank.value())))
            << one.name << " " << step;
        if (!exchange.all_equal) continue;
        at::Tensor gathered = at::zeros({16}, at::kFloat);
        groups.all().Gather(gathered, rank.a.detach());
        EXPECT_TRUE(gathered.eq(gathered[0]).all().item<bool>()) << one.name << " " << step;
      }
    });
  }
}

TEST(OuterStrategyTest, AMeanOutsideOfTheLadderBeginsANewRound) {
  RunRanks(Job(2, Kind::kHsgd, 1), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {Level(4, {2}, kSlowMo)}));
    const auto own = static_cast<float>(2 * config.rank());
    rank.strategy.BeginForward(0, true);
    rank.AfterStep(0);
    for (int64_t step = 1; step < 3; ++step) {
      rank.strategy.BeginForward(step, true);
      rank.Add(own);
      rank.AfterStep(step);
    }
    rank.strategy.AverageAll();
    EXPECT_EQ(rank.value(), 2) << "a plain mean";
    EXPECT_FALSE(rank.strategy.Memory().levels[0].momentum.any().item<bool>());
    for (int64_t step = 3; step < 5; ++step) rank.AfterStep(step);
    EXPECT_EQ(rank.value(), 2) << "nothing was learnt since";
    rank.Add(own);
    for (int64_t step = 5; step < 9; ++step) rank.AfterStep(step);
    EXPECT_EQ(rank.value(), 3);
    EXPECT_EQ(rank.strategy.Memory().levels[0].momentum[0].item<float>(), -1);
  });
}

// In bfloat16 the result of the second step is 1.5.
TEST(OuterStrategyTest, PointsAreWholeWeightsWithTheirCompensation) {
  RunRanks(Job(2, Kind::kLocalSgd), [](const TrainerConfig& config, Groups& groups) {
    const CompensatedWeights weights{at::zeros({3}, at::kBFloat16), at::zeros({3}, at::kBFloat16)};
    StrategyStart start = StartOf(groups, config, Plan(1, {Level(1, {2}, kSlowMo)}));
    start.compensation = {weights.compensation};
    FakeControl control;
    at::Tensor parameter = weights.parameter;
    Strategy strategy(groups, config, std::move(start), {{"a", parameter.requires_grad_()}}, {},
                      control);
    for (int step = 0; step < 2; ++step) {
      SetWeights(at::full({3}, 1 + 0x1p-10 * (config.rank() + step), at::kFloat), weights);
      strategy.AfterStep(step, at::Tensor(), [] {});
    }
    // Means are 1 + 2^-11 and 1 + 3 * 2^-11; the momentum is -(1 + 2^-11) / 2 - 2^-10.
    const LevelMemory level = strategy.Memory().levels[0];
    EXPECT_EQ(level.momentum[0].item<float>(), -0.5F - 5 * 0x1p-12F);
    EXPECT_EQ(level.reference[0].item<float>(), 1.5F + 7 * 0x1p-12F);
    EXPECT_EQ(weights.parameter[0].item<float>(), 1.5F);
    EXPECT_EQ(weights.compensation[0].item<float>(), 7 * 0x1p-12F);
  });
}

// Two ranks whose strategy is made anew between steps, as by another generation.
struct Generations {
  Generations(const TrainerConfig& its_config, Groups& its_groups,
              std::shared_ptr<const BuiltPlan> its_plan)
      : config(its_config), groups(its_groups), plan(std::move(its_plan)) {}

  void Start(int64_t step, const StrategyMemory* memory, bool regrouped = false) {
    StrategyStart start;
    start.plan = plan;
    start.step = step;
    start.resumes = memory != nullptr;
    start.regrouped = regrouped;
    if (memory != nullptr) start.memory = *memory;
    start.on_prepared = [this] {
      if (is_cut) throw CollectiveError("word", "a test");
    };
    start.on_applied = [this] { ++applied; };
    strategy.reset();
    strategy = std::make_unique<Strategy>(groups, config, std::move(start),
                                          std::vector<NamedTensor>{{"a", a}},
                                          std::function<std::vector<at::Tensor>()>(), control);
  }

  void Step(int64_t step) {
    strategy->BeginForward(step, true);
    {
      const at::NoGradGuard no_grad;
      a.add_(Learnt(config.rank(), step));
    }
    strategy->AfterStep(step, {}, [] {});
  }

  const TrainerConfig& config;
  Groups& groups;
  const std::shared_ptr<const BuiltPlan> plan;
  FakeControl control;
  const at::Tensor a = at::zeros({3}, at::kFloat).requires_grad_();
  std::unique_ptr<Strategy> strategy;
  bool is_cut = false;  // Within the word, with shards.
  int applied = 0;
};

TEST(OuterStrategyTest, TheNextGenerationGoesOnExactly) {
  const TrainingPlan plan =
      Plan(1, {Level(2, {2, 2}, kSlowMo), Level(8, {4}, kNesterov, WireFormat::kInt8)});
  RunRanks(Job(4, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    const std::shared_ptr<const BuiltPlan> built = BuildFirstPlan(groups, config, plan);
    Generations whole(config, groups, built);
    Generations broken(config, groups, built);
    whole.Start(0, nullptr);
    broken.Start(0, nullptr);
    for (int64_t step = 0; step < 24; ++step) {
      whole.Step(step);
      broken.Step(step);
      if (step % 5 == 4) {
        const StrategyMemory memory = broken.strategy->Memory();
        broken.Start(step + 1, &memory);
      }
      ASSERT_TRUE(whole.a.equal(broken.a)) << step;
    }
    EXPECT_GT(whole.applied, 0) << "an exchange with an outer step must not be repeated";
  });
}

// What the rendezvous does for a rank whose exchange was cut off.
TEST(OuterStrategyTest, WhoTakesTheResultGoesOnAsTheOthersDo) {
  const TrainingPlan plan = Plan(1, {Level(4, {2}, kNesterov)});
  RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    Generations rank(config, groups, BuildFirstPlan(groups, config, plan));
    rank.Start(0, nullptr);
    for (int64_t step = 0; step < 8; ++step) rank.Step(step);
    const StrategyMemory before = rank.strategy->Memory();
    const at::Tensor point = before.levels[0].reference.clone();
    rank.Step(8);
    StrategyMemory memory = rank.strategy->Memory();
    ASSERT_EQ(memory.mean_outer, 0);
    EXPECT_TRUE(memory.mean.narrow(0, 0, 3).equal(rank.a.detach()));
    EXPECT_TRUE(memory.mean_momentum.equal(memory.levels[0].momentum));
    if (config.rank() == 1) {
      StrategyMemory taken = before;
      taken.levels[0].reference = point;
      taken.levels[0].reference_number = before.levels[0].reference_number;
      taken.levels[0].momentum = memory.mean_momentum;
      taken.equal = {0, 2};
      memory = taken;
    }
    rank.Start(9, &memory);
    const StrategyMemory now = rank.strategy->Memory();
    EXPECT_EQ(now.levels[0].reference_number, before.levels[0].reference_number + 1);
    EXPECT_TRUE(now.levels[0].reference.equal(rank.a.detach()));
    for (int64_t step = 9; step < 13; ++step) rank.Step(step);
    at::Tensor gathered = at::zeros({6}, at::kFloat);
    groups.all().Gather(gathered, rank.a.detach());
    EXPECT_TRUE(gathered.narrow(0, 0, 3).equal(gathered.narrow(0, 3, 3)));
  });
}

TEST(OuterStrategyTest, OtherGroupsKeepTheMomentumOfTheLastLevel) {
  const TrainingPlan plan = Plan(2, {Level(2, {2, 2}, kSlowMo), Level(8, {4}, kNesterov)});
  RunRanks(Job(4, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    Generations rank(config, groups, BuildFirstPlan(groups, config, plan));
    {
      const at::NoGradGuard no_grad;
      rank.a.fill_(config.rank());
    }
    StrategyMemory memory;
    memory.levels.resize(1);  // Of another ladder.
    memory.levels[0].momentum = at::full({3}, config.rank() == 3 ? 6 : 2, at::kFloat);
    memory.all_equal = false;
    rank.Start(5, &memory, /*regrouped=*/true);
    EXPECT_TRUE(rank.strategy->is_regrouping());
    rank.strategy->BeginForward(5, true);
    EXPECT_EQ(rank.a[0].item<float>(), 1.5) << "the mean of all, without a step";
    const std::vector<LevelMemory> levels = rank.strategy->Memory().levels;
    ASSERT_THAT(levels, SizeIs(2));
    EXPECT_FALSE(levels[0].momentum.any().item<bool>());
    EXPECT_TRUE(levels[1].momentum.equal(at::full({3}, 3, at::kFloat))) << "their mean";
    for (const LevelMemory& level : levels) EXPECT_TRUE(level.reference.equal(rank.a.detach()));
  });
}

TEST(OuterStrategyTest, ANewLadderKeepsTheMomentumOfTheLastLevel) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {Level(2, {2}, kSlowMo)}));
    rank.strategy.Prepare(Plan(2, {Level(3, {2}), Level(6, {2}, kNesterov)}));
    rank.control.AwaitPrepared(2);
    rank.Add(static_cast<float>(config.rank()));
    rank.AfterStep(0);
    ASSERT_EQ(rank.strategy.plan().version, 2);
    EXPECT_EQ(rank.value(), 0.5);
    const StrategyMemory memory = rank.strategy.Memory();
    EXPECT_EQ(memory.mean_outer, -1) << "of the plan before";
    EXPECT_FALSE(memory.levels[0].momentum.defined());
    EXPECT_EQ(memory.levels[1].momentum[0].item<float>(), -0.5);
    EXPECT_EQ(memory.levels[1].reference[0].item<float>(), 0.5);
    rank.strategy.Prepare(Plan(3, {Level(6, {2})}));
    rank.control.AwaitPrepared(3);
    for (int64_t step = 1; step < 7; ++step) rank.AfterStep(step);
    ASSERT_EQ(rank.strategy.plan().version, 3);
    EXPECT_TRUE(rank.strategy.OuterMomentum().empty());
  });
}

TEST(OuterStrategyTest, StateIsNamedByWhoHasIt) {
  RunRanks(Job(4, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {Level(2, {2, 2}, kSlowMo), Level(8, {4}, kNesterov)}));
    rank.Add(static_cast<float>(config.rank()));
    rank.AfterStep(0);
    const std::vector<NamedTensor> own = rank.strategy.State();
    ASSERT_THAT(own, SizeIs(1));
    EXPECT_EQ(own[0].name, "averager/level0/momentum");
    const std::vector<NamedTensor> momentum = rank.strategy.OuterMomentum();
    ASSERT_THAT(momentum, SizeIs(2));
    EXPECT_EQ(momentum[0].name, "averager/momentum/a");
    EXPECT_EQ(momentum[1].name, "averager/momentum/b");
    EXPECT_TRUE(momentum[0].tensor.equal(at::full({2}, -1.5, at::kFloat)));
    EXPECT_TRUE(momentum[1].tensor.equal(at::full({}, -3, at::kFloat)));
  });
}

// Of 4 ranks in 2 replicas.
TEST(OuterStrategyTest, WithShardsAStepCountsWhenItIsApplied) {
  TrainerConfig job = Job(4, Kind::kHsgd);
  job.member.shards = 2;
  RunRanks(job, [](const TrainerConfig& config, Groups& groups) {
    Generations rank(config, groups,
                     BuildFirstPlan(groups, config, Plan(1, {Level(4, {2}, kNesterov)})));
    rank.Start(0, nullptr);
    for (int64_t step = 0; step < 8; ++step) rank.Step(step);
    const StrategyMemory before = rank.strategy->Memory();
    rank.is_cut = true;
    EXPECT_THROW(rank.Step(8), CollectiveError);
    rank.is_cut = false;
    const StrategyMemory cut = rank.strategy->Memory();
    ASSERT_EQ(cut.mean_outer, 0);
    const at::Tensor result = cut.mean.clone();
    EXPECT_FALSE(rank.a.detach().equal(result));
    EXPECT_TRUE(cut.levels[0].momentum.equal(before.levels[0].momentum));
    EXPECT_FALSE(cut.mean_momentum.equal(cut.levels[0].momentum));

    // Nobody has applied it: all make it again.
    rank.Start(9, &cut);
    rank.strategy->AfterStep(8, {}, [] {});
    EXPECT_TRUE(rank.a.detach().equal(result));
    const StrategyMemory after = rank.strategy->Memory();
    EXPECT_TRUE(after.levels[0].momentum.equal(cut.mean_momentum));
    EXPECT_EQ(after.levels[0].reference_number, cut.levels[0].reference_number + 1);
  });
}

}  // namespace
}  // namespace paceline
