// Streamed outer steps, whole or in fragments, at once or later, beside a model in plain loops.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/comm/testing/test_rank.h"

namespace paceline {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using Kind = StrategyConfig::Kind;

OuterRule Rule(int64_t fragments, int64_t delay, double alpha,
               OuterRule::Kind kind = OuterRule::Kind::kNesterov) {
  OuterRule rule;
  rule.kind = kind;
  rule.fragments = fragments;
  rule.delay = delay;
  rule.alpha = alpha;
  return rule;
}

TrainingPlan StreamPlan(int64_t version, int64_t period, int ranks, const OuterRule& rule,
                        std::vector<int> gradients = {}) {
  PlanLevel level;
  level.period = period;
  level.groups = {ranks};
  level.outer = rule;
  return Plan(version, {level}, std::move(gradients));
}

// What a rank's parameter has learnt in a step: "a" is number 0, "b" number 1.
double Learnt(int rank, int64_t step, int parameter) {
  const double learnt = 0.1 * (rank + 1) + 0.3 * std::sin(static_cast<double>(7 * rank + 3 * step));
  return (parameter + 1) * learnt;
}

// The parameters of all ranks, by the rules of docs/outer-steps.md.
class Reference {
 public:
  Reference(const OuterRule& rule, int64_t period, Kind kind, int ranks, int64_t warmup)
      : rule_(rule),
        interval_(period / rule.fragments),
        origin_(kind == Kind::kLocalSgd ? warmup : 0),
        warmup_(warmup),
        values_(static_cast<size_t>(ranks), std::vector<double>(2)) {}

  void Step(int64_t step) {
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      for (int one = 0; one < 2; ++one) {
        values_[rank][static_cast<size_t>(one)] += Learnt(static_cast<int>(rank), step, one);
      }
    }
    const std::vector<double> means{MeanOf(0), MeanOf(1)};
    if (step < warmup_) {
      point_ = means;
      values_.assign(values_.size(), means);
      return;
    }
    if ((step - origin_) % interval_ == 0) {
      begun_ = step;
      fragment_ = (step - origin_) / interval_ % rule_.fragments;
      means_ = means;
    }
    if (begun_ >= 0 && begun_ + rule_.delay == step) TakeUp();
  }

  double value(int rank, int parameter) const {
    return values_[static_cast<size_t>(rank)][static_cast<size_t>(parameter)];
  }
  bool takes_up(int64_t step) const { return begun_ >= 0 && begun_ + rule_.delay == step; }

 private:
  double MeanOf(size_t parameter) const {
    double mean = 0;
    for (const std::vector<double>& rank : values_) {
      mean += rank[parameter] / static_cast<double>(values_.size());
    }
    return mean;
  }

  void TakeUp() {
    for (size_t one = 0; one < 2; ++one) {
      if (rule_.fragments > 1 && fragment_ != static_cast<int64_t>(one)) continue;
      const double difference = point_[one] - means_[one];
      momentum_[one] = rule_.momentum * momentum_[one] + difference;
      const bool looks_ahead = rule_.kind == OuterRule::Kind::kNesterov;
      const double change =
          looks_ahead ? difference + rule_.momentum * momentum_[one] : momentum_[one];
      point_[one] -= rule_.learning_rate * change;
      for (std::vector<double>& rank : values_) {
        rank[one] = rule_.alpha * rank[one] + (1 - rule_.alpha) * point_[one];
      }
    }
  }

  const OuterRule rule_;
  const int64_t interval_;
  const int64_t origin_;
  const int64_t warmup_;
  std::vector<std::vector<double>> values_;  // By rank and parameter.
  std::vector<double> point_ = {0, 0};
  std::vector<double> momentum_ = {0, 0};
  int64_t begun_ = -1;
  int64_t fragment_ = 0;
  std::vector<double> means_;
};

void Learn(const TestRank& rank, int64_t step, int64_t warmup, int ranks) {
  const at::NoGradGuard no_grad;
  for (int one = 0; one < 2; ++one) {
    double learnt = Learnt(rank.config.rank(), step, one);
    if (step < warmup) {  // As synchronous steps do.
      learnt = 0;
      for (int other = 0; other < ranks; ++other) learnt += Learnt(other, step, one) / ranks;
    }
    at::Tensor(one == 0 ? rank.a : rank.b).add_(learnt);
  }
}

struct Case {
  std::string name;
  Kind kind;
  int64_t warmup;
  int64_t period;
  OuterRule rule;
};

std::vector<Case> Cases() {
  return {
      {"overlapped", Kind::kHsgd, 1, 6, Rule(1, 2, 0.5)},
      {"overlapped, nothing kept", Kind::kHsgd, 1, 6, Rule(1, 5, 0)},
      {"without warm-up", Kind::kHsgd, 0, 6, Rule(1, 3, 0.5)},
      {"streamed", Kind::kHsgd, 1, 6, Rule(2, 0, 0)},
      {"streamed and overlapped", Kind::kHsgd, 1, 6, Rule(2, 2, 0.5)},
      {"local sgd", Kind::kLocalSgd, 3, 8, Rule(2, 3, 0.25, OuterRule::Kind::kSlowMo)},
      {"more fragments than parameters", Kind::kHsgd, 2, 6, Rule(3, 1, 0.5)},
      {"at once, something kept", Kind::kHsgd, 1, 4, Rule(1, 0, 0.5)},
      {"each step", Kind::kHsgd, 0, 2, Rule(2, 0, 0.5)},
  };
}

TEST(StreamedStrategyTest, RanksHaveTheParametersOfTheFormulas) {
  for (const Case& one : Cases()) {
    RunRanks(Job(4, one.kind, one.warmup), [&](const TrainerConfig& config, Groups& groups) {
      TestRank rank(config, groups, StreamPlan(1, one.period, 4, one.rule));
      Reference reference(one.rule, one.period, one.kind, 4, one.warmup);
      for (int64_t step = 0; step < 40; ++step) {
        rank.strategy.BeginForward(step, true);
        Learn(rank, step, one.warmup, 4);
        const StepExchange exchange = rank.AfterStep(step, at::full({}, config.rank(), at::kFloat));
        reference.Step(step);
        const double tolerance = 2e-5 * (1 + std::abs(rank.value()));
        ASSERT_NEAR(rank.value(), reference.value(config.rank(), 0), tolerance)
            << one.name << " " << step;
        ASSERT_NEAR(rank.b.item<float>(), reference.value(config.rank(), 1), 2 * tolerance)
            << one.name << " " << step;
        const bool takes_up = step >= one.warmup && reference.takes_up(step);
        ASSERT_EQ(exchange.takes_average_up, takes_up) << one.name << " " << step;
        if (!takes_up) continue;
        EXPECT_EQ(exchange.mean_loss.item<float>(), 1.5);
        EXPECT_EQ(exchange.group_size, 4);
        const std::vector<at::Tensor> common = rank.strategy.CommonParameters();
        ASSERT_EQ(common.empty(), exchange.all_equal) << one.name;
        at::Tensor gathered = at::zeros({8}, at::kFloat);
        groups.all().Gather(gathered, common.empty() ? rank.a.detach() : common[0]);
        EXPECT_TRUE(gathered.eq(gathered[0]).all().item<bool>()) << one.name << " " << step;
      }
    });
  }
}

// Rank 1 does not begin the average before rank 0 has made all steps up to the one in which that
// is taken up: if rank 0 waited for it earlier, both would wait for each other.
TEST(StreamedStrategyTest, NobodyWaitsBeforeAnAverageIsDue) {
  absl::Notification has_trained;
  RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, StreamPlan(1, 8, 2, Rule(1, 5, 0.5)));
    if (config.rank() == 1) {
      EXPECT_TRUE(has_trained.WaitForNotificationWithTimeout(absl::Seconds(20)));
    }
    for (int64_t step = 0; step < 5; ++step) {
      rank.strategy.BeginForward(step, true);
      rank.Add(1);
      EXPECT_FALSE(rank.AfterStep(step).takes_average_up);
      EXPECT_TRUE(rank.strategy.is_averaging());
    }
    if (config.rank() == 0) has_trained.Notify();
    EXPECT_TRUE(rank.AfterStep(5).takes_average_up);
    EXPECT_FALSE(rank.strategy.is_averaging());
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
    strategy.reset();
    strategy = std::make_unique<Strategy>(groups, config, std::move(start),
                                          std::vector<NamedTensor>{{"a", a}, {"b", b}},
                                          std::function<std::vector<at::Tensor>()>(), control);
  }

  // The step without what follows the optimizer.
  void Compute(int64_t step) {
    strategy->BeginForward(step, true);
    const at::NoGradGuard no_grad;
    a.add_(Learnt(config.rank(), step, 0));
    b.add_(Learnt(config.rank(), step, 1));
  }
  void Step(int64_t step) {
    Compute(step);
    strategy->AfterStep(step, {}, [] {});
  }

  const TrainerConfig& config;
  Groups& groups;
  const std::shared_ptr<const BuiltPlan> plan;
  FakeControl control;
  const at::Tensor a = at::zeros({3}, at::kFloat).requires_grad_();
  const at::Tensor b = at::zeros({2}, at::kFloat).requires_grad_();
  std::unique_ptr<Strategy> strategy;
};

TEST(StreamedStrategyTest, TheNextGenerationGoesOnExactly) {
  std::vector<TrainingPlan> plans;
  for (const OuterRule& rule : {Rule(1, 3, 0.5), Rule(2, 1, 0.5), Rule(2, 0, 0)}) {
    for (const WireFormat format : {WireFormat::kFp32, WireFormat::kInt4, WireFormat::kFp8}) {
      plans.push_back(StreamPlan(1, 4, 2, rule));
      plans.back().levels[0].format = format;
    }
  }
  for (const TrainingPlan& plan : plans) {
    RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
      const std::shared_ptr<const BuiltPlan> built = BuildFirstPlan(groups, config, plan);
      Generations whole(config, groups, built);
      Generations broken(config, groups, built);
      whole.Start(0, nullptr);
      broken.Start(0, nullptr);
      for (int64_t step = 0; step < 24; ++step) {
        whole.Step(step);
        broken.Compute(step);
        // Cut off before what follows the optimizer, or after it.
        const bool is_cut = step % 3 == 0;
        if (!is_cut) broken.strategy->AfterStep(step, {}, [] {});
        const StrategyMemory memory = broken.strategy->Memory();
        broken.Start(step + 1, &memory);
        if (!is_cut) {
          ASSERT_TRUE(whole.a.equal(broken.a)) << step;
        }
      }
      whole.Step(24);
      broken.Step(24);
      EXPECT_TRUE(whole.a.equal(broken.a));
      EXPECT_TRUE(whole.b.equal(broken.b));
      EXPECT_TRUE(whole.strategy->Memory().levels[0].momentum.equal(
          broken.strategy->Memory().levels[0].momentum));
    });
  }
}

// One rank lags as far behind the other as that can go alone.
TEST(StreamedStrategyTest, TheResultDoesNotDependOnWhoIsLate) {
  std::vector<at::Tensor> results(4);
  for (const int late : {0, 1}) {
    absl::Mutex mu;
    std::vector<int64_t> done(2);  // By rank, steps.
    RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
      TestRank rank(config, groups, StreamPlan(1, 6, 2, Rule(2, 2, 0.5)));
      const auto me = static_cast<size_t>(config.rank());
      for (int64_t step = 0; step < 20; ++step) {
        if (config.rank() == late && step % 3 == 0) {
          const auto is_ahead = [&] { return done[1 - me] >= step + 2; };
          const absl::MutexLock lock(&mu);
          EXPECT_TRUE(mu.AwaitWithTimeout(absl::Condition(&is_ahead), absl::Seconds(20)));
        }
        rank.strategy.BeginForward(step, true);
        Learn(rank, step, 0, 2);
        rank.AfterStep(step);
        const absl::MutexLock lock(&mu);
        done[me] = step + 1;
      }
      results[2 * static_cast<size_t>(late) + me] = rank.a.detach().clone();
    });
  }
  EXPECT_TRUE(results[0].equal(results[2]));
  EXPECT_TRUE(results[1].equal(results[3]));
}

// What the rendezvous does for a rank that is cut off, after others have taken the average up.
TEST(StreamedStrategyTest, WhoGetsTheResultTakesItUpAsTheOthersDo) {
  RunRanks(Job(2, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    Generations rank(config, groups,
                     BuildFirstPlan(groups, config, StreamPlan(1, 8, 2, Rule(2, 2, 0.5))));
    rank.Start(0, nullptr);
    for (int64_t step = 0; step < 6; ++step) rank.Step(step);
    rank.Compute(6);
    const at::Tensor a = rank.a.detach().clone();
    const at::Tensor b = rank.b.detach().clone();
    const StreamMemory before = rank.strategy->Memory().levels[0].stream;
    EXPECT_EQ(before.position, (StreamPosition{4, 4, 0}));
    rank.strategy->AfterStep(6, {}, [] {});
    const at::Tensor after = rank.b.detach().clone();
    EXPECT_FALSE(after.equal(b));
    if (config.rank() == 1) {
      StrategyMemory memory = rank.strategy->Memory();
      memory.levels[0].stream.position = {4, 4, 4};
      {
        const at::NoGradGuard no_grad;
        rank.a.copy_(a);
        rank.b.copy_(b);
      }
      rank.Start(7, &memory);
      EXPECT_TRUE(rank.strategy->changes_first());
      rank.strategy->BeginForward(7, true);
    }
    EXPECT_TRUE(rank.b.detach().equal(after));
    EXPECT_TRUE(rank.a.detach().equal(a)) << "of another fragment";
    EXPECT_EQ(rank.strategy->Memory().levels[0].stream.position, (StreamPosition{4, -1, 4}));
    for (int64_t step = 7; step < 12; ++step) rank.Step(step);
  });
}

TEST(StreamedStrategyTest, AMeanOfAllRanksDropsTheAverageUnderWay) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, StreamPlan(1, 4, 2, Rule(1, 2, 0.5)));
    rank.Add(static_cast<float>(2 * config.rank()));
    rank.AfterStep(0);
    EXPECT_TRUE(rank.strategy.is_averaging());
    rank.Add(1);
    rank.AfterStep(1);
    rank.strategy.AverageAll();
    EXPECT_FALSE(rank.strategy.is_averaging());
    EXPECT_EQ(rank.value(), 2) << "a plain mean";
    EXPECT_THAT(rank.strategy.CommonParameters(), IsEmpty()) << "all are equal";
    EXPECT_FALSE(rank.AfterStep(2).takes_average_up);
    const LevelMemory level = rank.strategy.Memory().levels[0];
    EXPECT_FALSE(level.momentum.any().item<bool>());
    EXPECT_EQ(level.reference[0].item<float>(), 2);
    for (int64_t step = 3; step < 6; ++step) rank.AfterStep(step);
    EXPECT_TRUE(rank.AfterStep(6).takes_average_up);
    EXPECT_EQ(rank.value(), 2) << "nothing was learnt since";
  });
}

TEST(StreamedStrategyTest, OtherGroupsDropTheAverageUnderWayAndKeepTheMomentum) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    Generations rank(config, groups,
                     BuildFirstPlan(groups, config, StreamPlan(1, 4, 2, Rule(1, 2, 0.5))));
    rank.Start(0, nullptr);
    for (int64_t step = 0; step < 6; ++step) rank.Step(step);
    const StrategyMemory memory = rank.strategy->Memory();
    EXPECT_TRUE(memory.levels[0].stream.position.is_waiting());
    const at::Tensor momentum = memory.levels[0].momentum.clone();
    rank.Start(6, &memory, /*regrouped=*/true);
    rank.strategy->BeginForward(6, true);
    const LevelMemory level = rank.strategy->Memory().levels[0];
    EXPECT_FALSE(level.stream.position.is_waiting());
    EXPECT_TRUE(level.reference.narrow(0, 0, 3).equal(rank.a.detach())) << "equal on all ranks";
    EXPECT_TRUE(level.momentum.allclose(momentum));
    EXPECT_FALSE(rank.strategy->AfterStep(6, {}, [] {}).takes_average_up);
  });
}

// Ranks are not equal when they change from a streamed level, so that a mean comes first.
TEST(StreamedStrategyTest, ANewLadderBeginsWithAMeanOfAll) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, StreamPlan(1, 4, 2, Rule(1, 1, 0.5)));
    PlanLevel plain;
    plain.period = 4;
    plain.groups = {2};
    rank.strategy.Prepare(Plan(2, {plain}));
    rank.control.AwaitPrepared(2);
    rank.Add(static_cast<float>(2 * config.rank()));
    rank.AfterStep(0);
    EXPECT_EQ(rank.strategy.plan().version, 1) << "the average must have come";
    const StepExchange exchange = rank.AfterStep(1);
    ASSERT_EQ(rank.strategy.plan().version, 2);
    EXPECT_FALSE(exchange.takes_average_up) << "what ranks have in common is gone";
    EXPECT_FALSE(exchange.all_equal);
    EXPECT_TRUE(rank.strategy.is_regrouping());
    rank.strategy.BeginForward(2, true);
    at::Tensor gathered = at::zeros({4}, at::kFloat);
    groups.all().Gather(gathered, rank.a.detach());
    EXPECT_TRUE(gathered.eq(gathered[0]).all().item<bool>());

    rank.strategy.Prepare(StreamPlan(3, 4, 2, Rule(2, 1, 0.5)));
    rank.control.AwaitPrepared(3);
    for (int64_t step = 2; step < 5; ++step) rank.AfterStep(step);
    ASSERT_EQ(rank.strategy.plan().version, 3);
    EXPECT_FALSE(rank.strategy.is_regrouping()) << "the mean of step 4 has made all equal";
    rank.AfterStep(5);
    rank.AfterStep(6);
    EXPECT_TRUE(rank.AfterStep(7).takes_average_up);
  });
}

TEST(StreamedStrategyTest, StateIsNamedByWhoHasIt) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, StreamPlan(1, 4, 2, Rule(1, 1, 0.5)));
    rank.Add(static_cast<float>(config.rank()));
    rank.AfterStep(0);
    rank.AfterStep(1);
    const std::vector<NamedTensor> own = rank.strategy.State();
    ASSERT_THAT(own, SizeIs(2));
    EXPECT_EQ(own[0].name, "averager/own/a");
    EXPECT_EQ(own[1].name, "averager/own/b");
    EXPECT_TRUE(own[0].tensor.equal(rank.a.detach()));
    const std::vector<at::Tensor> common = rank.strategy.CommonParameters();
    ASSERT_THAT(common, SizeIs(2));
    EXPECT_FALSE(common[0].equal(rank.a.detach()));
    EXPECT_EQ(common[1].dim(), 0) << "of the parameter's shape";
    EXPECT_THAT(rank.strategy.OuterMomentum(), SizeIs(2));
  });
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    const TestRank equal(config, groups, StreamPlan(1, 4, 2, Rule(1, 1, 0)));
    EXPECT_THAT(equal.strategy.State(), IsEmpty()) << "ranks keep nothing of their own";
  });
}

}  // namespace
}  // namespace paceline
