#include "worker/trainer/comm/strategy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "worker/trainer/comm/rank_threads.h"
#include "worker/trainer/comm/training_plan.h"

namespace paceline {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pair;
using Kind = StrategyConfig::Kind;

class FakeControl : public Control {
 public:
  absl::StatusOr<TrainerConfig> WaitForConfig() override { return TrainerConfig(); }
  void SetReady(int /*store_port*/) override {}
  absl::StatusOr<StartOrder> WaitForStart() override { return StartOrder(); }
  void SetPlanListener(std::function<void(const TrainingPlan&)> /*on_plan*/) override {}
  std::optional<ProfileRequest> profile_request() const override { return std::nullopt; }
  void SetRunning() override {}
  void SetEvaluation(const EvaluationResult& /*result*/) override {}
  void SetPlanStatus(const PlanStatus& status) override {
    const absl::MutexLock lock(&mu_);
    status_ = status;
  }
  void SetFigures(const RankFigures& /*figures*/) override {}
  void SetProfile(const ProfileResult& /*result*/) override {}
  int Finish(const absl::Status& /*status*/) override { return 0; }

  PlanStatus status() const {
    const absl::MutexLock lock(&mu_);
    return status_;
  }
  // Also if it could not be prepared.
  void AwaitPrepared(int64_t epoch) const {
    const auto prepared = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return status_.prepared_epoch >= epoch || status_.failed_epoch >= epoch;
    };
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&prepared));
  }

 private:
  mutable absl::Mutex mu_;
  PlanStatus status_ ABSL_GUARDED_BY(mu_);
};

TrainerConfig Job(int ranks, Kind kind, int64_t warmup = 0) {
  TrainerConfig config;
  config.world_size = ranks;
  config.startup_timeout = absl::Seconds(20);
  config.strategy.kind = kind;
  config.strategy.warmup_steps = warmup;
  return config;
}

TrainingPlan Plan(int64_t epoch, std::vector<PlanLevel> levels, std::vector<int> gradients = {}) {
  TrainingPlan plan;
  plan.epoch = epoch;
  plan.levels = std::move(levels);
  plan.gradient_groups = std::move(gradients);
  return plan;
}

std::vector<PlanLevel> Ladder248() { return {{2, {2, 2, 2, 2}}, {4, {4, 4}}, {8, {8}}}; }

// A rank with two parameters, "a" [2] and "b" [].
struct TestRank {
  TestRank(const TrainerConfig& config_in, Groups& groups, const TrainingPlan& plan,
           float initial = 0, std::function<std::vector<at::Tensor>()> state = {})
      : config(config_in),
        a(at::full({2}, initial, at::kFloat).requires_grad_()),
        b(at::full({}, initial, at::kFloat).requires_grad_()),
        strategy(groups, config, plan, {{"a", a}, {"b", b}}, std::move(state), control) {}

  void Add(float value) {
    const at::NoGradGuard no_grad;
    a.add_(value);
    b.add_(2 * value);
  }

  StepExchange AfterStep(int64_t step, const at::Tensor& loss = {}) {
    return strategy.AfterStep(step, loss, [this] { ++averages; });
  }

  // The gradients of a, after a pass whose own gradients are `value`.
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

// Of all ranks after steps 0 .. 9 in which rank r adds r + 1, as observed on PyTorch.
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
      // Three floats of the parameters, three that ride along.
      EXPECT_EQ(exchange.bytes, step % 4 == 0 ? 2 * 3 * 24 / 4 : step % 2 == 0 ? 2 * 12 / 2 : 0);
    }
    // Since step 4: twice its rank, the mean of its pair, twice its rank; mean 6 over all.
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
      std::vector<at::Tensor> state;  // There is none before the first step.
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

TEST(StrategyTest, Int8MeansKeepTheRanksEqualAtTheirLevel) {
  const std::vector<PlanLevel> levels = {{2, {2, 2}}, {4, {4}, WireFormat::kInt8}};
  RunRanks(Job(4, Kind::kHsgd, 3), [&](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, levels));
    for (int64_t step = 0; step < 3; ++step) {  // In the warm-up ranks stay equal.
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
      // One row of 512 for each of four members, its scale, and three riders.
      EXPECT_EQ(exchange.bytes, 3 * (2 * 516 + 12));
      const auto steps = static_cast<float>(step - 2);
      EXPECT_NEAR(rank.value(), 3000 + 1.5 * steps, 0.15);
      at::Tensor gathered = at::zeros({8}, at::kFloat);
      groups.all().Gather(gathered, rank.a.detach());
      EXPECT_EQ(gathered.min().item<float>(), gathered.max().item<float>());
    }
  });
}

// What the parameters of all ranks come to, added up without communication.
class Reference {
 public:
  Reference(int ranks, int64_t warmup) : values_(static_cast<size_t>(ranks)), warmup_(warmup) {}

  // Rank r adds r, and the plan's means follow. Returns the level, -1 for none.
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

  // Mean of r over the members with whom this rank shares gradients.
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

// Steps at which plans became active on each rank while they changed five times, and what the
// ranks computed by each.
TEST(StrategyTest, AllRanksTakeUpAPlanAtTheSameStep) {
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
    std::map<int64_t, std::vector<int64_t>> taken_up;  // By epoch.
    RunRanks(Job(8, Kind::kHsgd, warmup), [&](const TrainerConfig& config, Groups& groups) {
      // Rank 0's plan counts.
      TestRank rank(config, groups, plans[config.rank() == 0 ? 0 : 5]);
      Reference reference(config.world_size, warmup);
      size_t active = 0;  // Of the plans.
      size_t told = 0;
      EXPECT_EQ(rank.control.status().active_epoch, 1);
      int64_t end = 5000;
      for (int64_t step = 0; step < end; ++step) {
        // Each hears of it at another time, when all train by the plan before.
        if (told == active && told + 1 < plans.size() && step % 9 == config.rank()) {
          rank.strategy.Prepare(plans[++told]);
        }
        const TrainingPlan& plan = plans[active];
        const auto own = static_cast<float>(config.rank());
        EXPECT_THAT(rank.GradientsOf(step, {own}),
                    Each(FloatNear(reference.Gradient(plan, step, config.rank()), 1e-5F)))
            << plan.epoch << " " << step;
        rank.Add(own);
        rank.AfterStep(step);
        const int level = reference.Step(plan, step);
        const bool rounded = level >= 0 && plan.levels[static_cast<size_t>(level)].format == kInt8;
        ASSERT_NEAR(rank.value(), reference.value(config.rank()),
                    rounded ? 0.4 : 1e-6 * (1 + rank.value()))
            << plan.epoch << " " << step;
        if (rounded) {
          at::Tensor gathered = at::zeros({2 * config.world_size}, at::kFloat);
          groups.all().Gather(gathered, rank.a.detach());
          reference.Set(gathered.view({-1, 2}).select(1, 0).contiguous());
        }
        const PlanStatus status = rank.control.status();
        if (status.active_epoch == plan.epoch) continue;
        ASSERT_EQ(status.active_epoch, plans[++active].epoch);
        EXPECT_EQ(status.active_since_step, step + 1);
        if (active + 1 == plans.size()) end = step + 17;
        const absl::MutexLock lock(&mu);
        taken_up[status.active_epoch].push_back(step + 1);
      }
    });
    EXPECT_EQ(taken_up.size(), 5U);
    // Of the plan before.
    const std::map<int64_t, int64_t> period = {{2, 8}, {5, 4}, {6, 8}, {8, 8}, {9, 4}};
    for (const auto& [epoch, steps] : taken_up) {
      EXPECT_EQ(steps.size(), 8U);
      EXPECT_THAT(steps, Each(steps.front())) << epoch;
      EXPECT_EQ((steps.front() - 1) % period.at(epoch), 0) << epoch;
    }
  }
}

TEST(StrategyTest, PlansOfDifferentEpochsAreNotTakenUp) {
  RunRanks(Job(2, Kind::kHsgd), [](const TrainerConfig& config, Groups& groups) {
    TestRank rank(config, groups, Plan(1, {{2, {2}}}));
    rank.strategy.Prepare(Plan(2 + config.rank(), {{3, {2}}}));
    rank.control.AwaitPrepared(2 + config.rank());
    for (int64_t step = 0; step < 5; ++step) rank.AfterStep(step);
    EXPECT_EQ(rank.control.status().active_epoch, 1);
    rank.strategy.Prepare(Plan(1, {{3, {2}}}));  // Old,
    rank.strategy.Prepare(Plan(7, {{3, {9}}}));  // not for two ranks,
    EXPECT_EQ(rank.control.status().failed_epoch, 7);
    EXPECT_THAT(rank.control.status().error, HasSubstr("plan 7, level 1"));
    if (config.rank() == 0) rank.strategy.Prepare(Plan(3, {}));  // and too old by now.
    rank.strategy.Prepare(Plan(8, {{3, {2}}}));
    rank.control.AwaitPrepared(8);
    for (int64_t step = 5; step < 9; ++step) rank.AfterStep(step);
    EXPECT_EQ(rank.control.status().active_epoch, 8);
    EXPECT_EQ(rank.control.status().failed_epoch, 0);
  });
}

// Its second connection fails: the first after that of all ranks.
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
  const bool connects_;  // Before it fails, so that the others do not notice.
  int calls_ = 0;
  c10::intrusive_ptr<c10d::Backend> connected_;
};

TEST(StrategyTest, TrainingGoesOnWhenARankCannotPrepareAPlan) {
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
      EXPECT_EQ(status.failed_epoch, fails ? 2 : 0) << config.rank();
      EXPECT_EQ(status.prepared_epoch, fails ? 1 : 2) << config.rank();
      EXPECT_THAT(status.error, HasSubstr(config.rank() == 3 ? "no more sockets" : ""));
      EXPECT_EQ(status.error.empty(), !fails);
      train_two_steps();
      EXPECT_EQ(rank.control.status().active_epoch, 1);

      rank.strategy.Prepare(Plan(3, levels));
      rank.control.AwaitPrepared(3);
      train_two_steps();  // By the ladder before: a mean of all, and none.
      EXPECT_EQ(rank.control.status().active_epoch, 3);
      EXPECT_EQ(rank.control.status().active_since_step, 5);
      EXPECT_EQ(rank.control.status().failed_epoch, 0);
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

TEST(StrategyTest, ARankThatIsAloneFollowsItsPlanToo) {
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
