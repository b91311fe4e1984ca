// How plans change during training, and what happens when one cannot be prepared.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/comm/testing/test_rank.h"
#include "worker/trainer/comm/training_plan.h"

namespace paceline {
namespace {

using testing::Each;
using testing::FloatNear;
using testing::HasSubstr;
using testing::SizeIs;
using Kind = StrategyConfig::Kind;

// Computes the expected parameters of all ranks without communication.
class Reference {
 public:
  Reference(int ranks, int64_t warmup) : values_(static_cast<size_t>(ranks)), warmup_(warmup) {}

  // Rank r adds r, then the plan's means are taken. Returns the level, or -1 for none.
  int Step(const TrainingPlan& plan, int64_t step) {
    for (size_t rank = 0; rank < values_.size(); ++rank) values_[rank] += static_cast<float>(rank);
    if (step < warmup_) return -1;
    for (auto level = static_cast<int>(plan.levels.size()) - 1; level >= 0; --level) {
      if (step % plan.levels[static_cast<size_t>(level)].period != 0) continue;
      auto first = values_.begin();
      for (const int size : plan.levels[static_cast<size_t>(level)].groups) {
        std::fill(first, first + size, std::accumulate(first, first + size, 0.0F) / size);
        first += size;
      }
      return level;
    }
    return -1;
  }

  // Mean of r over the ranks that share gradients with this one.
  float Gradient(const TrainingPlan& plan, int64_t step, int rank) const {
    if (step < warmup_) return static_cast<float>(values_.size() - 1) / 2;
    const std::vector<int> members = MembersOf(plan.gradient_groups, rank);
    return static_cast<float>(members.front() + members.back()) / 2;
  }

  float value(int rank) const { return values_[static_cast<size_t>(rank)]; }
  void Set(const at::Tensor& values) {
    const float* const first = values.const_data_ptr<float>();
    values_.assign(first, first + values.numel());
  }

 private:
  std::vector<float> values_;
  const int64_t warmup_;
};

// Five changes of plan during training: records at which step each rank took up a plan, and
// compares what it computed.
TEST(StrategyPlanTest, AllRanksTakeUpAPlanAtTheSameStep) {
  constexpr auto kInt8 = WireFormat::kInt8;
  const std::vector<TrainingPlan> plans = {
      Plan(1, Ladder248()),
      Plan(2, {{1, {3, 5}}, {4, {8}}}, {2, 2, 2, 2}),
      Plan(5, {{8, {8}}}, {4, 4}),
      Plan(6, Ladder248()),
      Plan(8, {{2, {2, 2, 2, 2}, kInt8}, {4, {8}}}, {2, 2, 4}),
      Plan(9, {{1, {2, 2, 2, 2}}, {2, {4, 4}, kInt8}, {8, {8}, kInt8}})};
  for (const int64_t warmup : {0, 10000}) {
    absl::Mutex mu;
    std::map<int64_t, std::vector<int64_t>> taken_up;  // By version.
    RunRanks(Job(8, Kind::kHsgd, warmup), [&](const TrainerConfig& config, Groups& groups) {
      // Only rank 0's plan counts.
      TestRank rank(config, groups, plans[config.rank() == 0 ? 0 : 5]);
      Reference reference(config.member.world_size, warmup);
      size_t active = 0;  // Index into the plans.
      size_t reported = 0;
      EXPECT_EQ(rank.control.status().active_version, 1);
      int64_t end = 5000;
      for (int64_t step = 0; step < end; ++step) {
        // Each rank hears of it at another time, once all train by the previous plan.
        if (reported == active && reported + 1 < plans.size() && step % 9 == config.rank()) {
          rank.strategy.Prepare(plans[++reported]);
        }
        const TrainingPlan& plan = plans[active];
        const auto own = static_cast<float>(config.rank());
        EXPECT_THAT(rank.GradientsOf(step, {own}),
                    Each(FloatNear(reference.Gradient(plan, step, config.rank()), 1e-5F)))
            << plan.version << " " << step;
        rank.Add(own);
        rank.AfterStep(step);
        const int level = reference.Step(plan, step);
        const bool rounded = level >= 0 && plan.levels[static_cast<size_t>(level)].format == kInt8;
        ASSERT_NEAR(rank.value(), reference.value(config.rank()),
                    rounded ? 0.4 : 1e-6 * (1 + rank.value()))
            << plan.version << " " << step;
        if (rounded) {
          at::Tensor gathered = at::zeros({2 * config.member.world_size}, at::kFloat);
          groups.all().Gather(gathered, rank.a.detach());
          reference.Set(gathered.view({-1, 2}).select(1, 0).contiguous());
        }
        const PlanStatus status = rank.control.status();
        if (status.active_version == plan.version) continue;
        ASSERT_EQ(status.active_version, plans[++active].version);
        EXPECT_EQ(status.active_since_step, step + 1);
        if (active + 1 == plans.size()) end = step + 17;
        const absl::MutexLock lock(&mu);
        taken_up[status.active_version].push_back(step + 1);
      }
    });
    EXPECT_EQ(taken_up.size(), 5U);
    // Period of the previous plan's top level.
    const std::map<int64_t, int64_t> period = {{2, 8}, {5, 4}, {6, 8}, {8, 8}, {9, 4}};
    for (const auto& [version, steps] : taken_up) {
      EXPECT_EQ(steps.size(), 8U);
      EXPECT_THAT(steps, Each(steps.front())) << version;
      EXPECT_EQ((steps.front() - 1) % period.at(version), 0) << version;
    }
  }
}

TEST(StrategyPlanTest, PlansOfDifferentVersionsAreNotTakenUp) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {{2, {2}}}));
    rank.strategy.Prepare(Plan(2 + config.rank(), {{3, {2}}}));
    rank.control.AwaitPrepared(2 + config.rank());
    for (int64_t step = 0; step < 5; ++step) rank.AfterStep(step);
    EXPECT_EQ(rank.control.status().active_version, 1);
    rank.strategy.Prepare(Plan(1, {{3, {2}}}));  // Too old,
    rank.strategy.Prepare(Plan(7, {{3, {9}}}));  // not for two ranks,
    EXPECT_EQ(rank.control.status().failed_version, 7);
    EXPECT_THAT(rank.control.status().error, HasSubstr("plan 7, level 1"));
    if (config.rank() == 0) rank.strategy.Prepare(Plan(3, {}));  // and too old by now.
    rank.strategy.Prepare(Plan(8, {{3, {2}}}));
    rank.control.AwaitPrepared(8);
    for (int64_t step = 5; step < 9; ++step) rank.AfterStep(step);
    EXPECT_EQ(rank.control.status().active_version, 8);
    EXPECT_EQ(rank.control.status().failed_version, 0);
  });
}

// Four ranks whose optimizers differ.
TEST(StrategyPlanTest, LadderIsTakenUpAndGivenUpAgain) {
  absl::Mutex mu;
  std::map<int64_t, std::vector<int64_t>> taken_up;  // By version.
  RunRanks(Job(4, Kind::kHsgd), [&](const TrainerConfig& config, Groups& groups) {
    const auto own = static_cast<float>(config.rank());
    const at::Tensor momentum = at::full({2}, own, at::kFloat);
    TestRank rank(config, groups, Plan(1, {}), 0, [&] { return std::vector{momentum}; });
    int64_t step = 0;
    const auto train = [&](float gradient, float added) {
      EXPECT_THAT(rank.GradientsOf(step, {own}), Each(gradient)) << step;
      rank.Add(added);
      return rank.AfterStep(step++);
    };
    const auto train_until = [&](int64_t version, float gradient, float added) {
      while (step < 100 && rank.control.status().active_version != version) train(gradient, added);
      const absl::MutexLock lock(&mu);
      taken_up[version].push_back(rank.control.status().active_since_step);
    };
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(train(1.5, 1).all_equal);
    EXPECT_EQ(rank.averages, 0);
    rank.strategy.Prepare(Plan(2, {{2, {2, 2}}, {4, {4}}}, {2, 2}));
    rank.control.AwaitPrepared(2);
    train_until(2, 1.5, 1);
    EXPECT_EQ(rank.value(), static_cast<float>(step)) << "all ranks did the same";

    EXPECT_FALSE(train(config.rank() < 2 ? 0.5F : 2.5F, own).all_equal);
    rank.strategy.Prepare(Plan(3, {}));
    rank.control.AwaitPrepared(3);
    train_until(3, config.rank() < 2 ? 0.5F : 2.5F, own);
    EXPECT_THAT(rank.GradientsOf(step, {own}), Each(1.5F));
    EXPECT_EQ(momentum[0].item<float>(), 1.5F) << "else ranks would drift apart unseen";
    const float value = rank.value();
    at::Tensor sum = rank.a.detach().clone();
    groups.all().Sum(sum);
    EXPECT_EQ(sum[0].item<float>(), 4 * value);
    EXPECT_TRUE(rank.AfterStep(step++).all_equal);
    momentum.fill_(own);
    train(1.5, 1);
    EXPECT_EQ(momentum[0].item<float>(), own) << "made equal once";
  });
  for (const int64_t version : {2, 3}) {
    EXPECT_THAT(taken_up[version], SizeIs(4));
    EXPECT_THAT(taken_up[version], Each(taken_up[version].front())) << version;
  }
}

// The checkpoint has one optimizer state per rank, from a ladder.
TEST(StrategyPlanTest, StartFromACheckpointWithoutLevelsMakesOptimizersEqual) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    FakeControl control;
    const at::Tensor a = at::full({2}, 4, at::kFloat).requires_grad_();
    const at::Tensor momentum = at::full({2}, static_cast<float>(config.rank()), at::kFloat);
    StrategyStart start = StartOf(groups, config, Plan(1, {}));
    start.step = 40;
    Strategy strategy(
        groups, config, std::move(start), {{"a", a}}, [&] { return std::vector{momentum}; },
        control);
    strategy.BeginForward(40, /*last=*/true);
    EXPECT_EQ(momentum[1].item<float>(), 0.5F);
    EXPECT_EQ(a[1].item<float>(), 4);
  });
}

// Fails at its second connection, the first after that of all ranks.
class FailingPlatform : public CpuPlatform {
 public:
  explicit FailingPlatform(bool connects) : connects_(connects) {}

  c10::intrusive_ptr<c10d::Backend> Connect(const TrainerConfig& config,
                                            const Membership& membership,
                                            const c10::intrusive_ptr<c10d::Store>& store,
                                            absl::Duration timeout) override {
    if (++calls_ != 2) return CpuPlatform::Connect(config, membership, store, timeout);
    if (connects_) connected_ = CpuPlatform::Connect(config, membership, store, timeout);
    throw std::runtime_error("no more sockets");
  }

 private:
  const bool connects_;  // Before failing, so that the others do not notice.
  int calls_ = 0;
  c10::intrusive_ptr<c10d::Backend> connected_;
};

TEST(StrategyPlanTest, TrainingGoesOnWhenARankCannotPrepareAPlan) {
  for (const bool connects : {false, true}) {
    TrainerConfig job = Job(4, Kind::kHsgd);
    job.startup_timeout = absl::Seconds(3);
    const std::vector<PlanLevel> levels = {{1, {2, 2}}, {2, {4}}};
    const auto train = [&](const TrainerConfig& config, Groups& groups) {
      groups.SetTimeout(absl::Seconds(20));
      TestRank rank(config, groups, Plan(1, {{2, {4}}}));
      int64_t step = 0;
      const auto train_two_steps = [&] {
        for (const int64_t end = step + 2; step < end; ++step) {
          rank.Add(static_cast<float>(config.rank()));
          rank.AfterStep(step);
        }
      };
      rank.strategy.Prepare(Plan(2, levels));
      train_two_steps();
      rank.control.AwaitPrepared(2);
      const PlanStatus status = rank.control.status();
      const bool fails = config.rank() == 3 || (config.rank() == 2 && !connects);
      EXPECT_EQ(status.failed_version, fails ? 2 : 0) << config.rank();
      EXPECT_EQ(status.prepared_version, fails ? 1 : 2) << config.rank();
      EXPECT_THAT(status.error, HasSubstr(config.rank() == 3 ? "no more sockets" : ""));
      EXPECT_EQ(status.error.empty(), !fails);
      train_two_steps();
      EXPECT_EQ(rank.control.status().active_version, 1);

      rank.strategy.Prepare(Plan(3, levels));
      rank.control.AwaitPrepared(3);
      train_two_steps();  // By the previous ladder: a mean of all, and none.
      EXPECT_EQ(rank.control.status().active_version, 3);
      EXPECT_EQ(rank.control.status().active_since_step, 5);
      EXPECT_EQ(rank.control.status().failed_version, 0);
      EXPECT_EQ(rank.control.status().error, "");
      rank.Add(static_cast<float>(config.rank()));
      rank.AfterStep(step++);
      const float all = rank.value();
      rank.Add(static_cast<float>(config.rank()));
      rank.AfterStep(step++);
      EXPECT_EQ(rank.value() - all, config.rank() < 2 ? 0.5 : 2.5);
    };
    RunRanks(job, train, [&](int rank) -> std::unique_ptr<Platform> {
      if (rank == 3) return std::make_unique<FailingPlatform>(connects);
      return std::make_unique<CpuPlatform>();
    });
  }
}

TEST(StrategyPlanTest, ARankThatIsAloneFollowsItsPlanToo) {
  RunRanks(Job(1, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {{2, {1}}}, {1}));
    EXPECT_THAT(rank.GradientsOf(0, {3}), Each(3));
    rank.Add(1);
    rank.strategy.Prepare(Plan(2, {{4, {1}}}));
    rank.control.AwaitPrepared(2);
    const StepExchange exchange = rank.AfterStep(0, at::full({}, 4, at::kFloat));
    EXPECT_TRUE(exchange.all_equal);
    EXPECT_EQ(exchange.bytes, 0);
    EXPECT_EQ(exchange.mean_loss.item<float>(), 4.0);
    EXPECT_EQ(rank.control.status().active_since_step, 1);
    EXPECT_EQ(rank.value(), 1);
    EXPECT_EQ(rank.averages, 0);
    rank.strategy.AverageAll();
    EXPECT_EQ(rank.value(), 1);
  });
}

}  // namespace
}  // namespace paceline
