// Ranks that train with Slipstream over Gloo: their results and where they stop.
#include "worker/trainer/slipstream/slipstream.h"

#include <ATen/ops/allclose.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/slipstream/testing/test_rank.h"

namespace paceline {
namespace {

using Mode = SlipstreamMode;

constexpr Mode kModes[] = {Mode::kSync, Mode::kDrop, Mode::kFree, Mode::kPause};

void ExpectNear(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::allclose(a[i], b[i], /*rtol=*/0, /*atol=*/1e-5)) << "tensor " << i;
  }
}

// Results by rank.
class Collected {
 public:
  explicit Collected(int ranks) : all_(static_cast<size_t>(ranks)) {}
  void Add(int rank, const Tensors& tensors) {
    const absl::MutexLock lock(&mu_);
    Tensors& own = all_[static_cast<size_t>(rank)];
    own.insert(own.end(), tensors.begin(), tensors.end());
  }
  void ExpectAllSame() const {
    for (const Tensors& one : all_) ExpectSame(one, all_.front());
  }
  const Tensors& first() const { return all_.front(); }

 private:
  absl::Mutex mu_;
  std::vector<Tensors> all_;
};

// Trains with the mean of all ranks' gradients, in one thread.
Tensors SynchronousTraining(const TrainerConfig& config, const Tensors& initial) {
  SmallModel model;
  const Tensors parameters = TensorsOf(model.parameters());
  {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].detach().copy_(initial[i]);
  }
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config.optimizer, parameters);
  const at::Tensor rate = MakeLearningRate(at::kCPU);
  const int ranks = config.member.world_size;
  for (int64_t step = 0; step < config.steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      model.Loss(SmallBatch(rank, step)).div(ranks).backward();
    }
    at::Tensor(rate).fill_(LearningRate(config.schedule, step));
    optimizer->Step(rate, {});
  }
  Tensors result = CopyOf(model);
  result.resize(parameters.size());
  return result;
}

TEST(SlipstreamTest, EachModeTrainsAndAllRanksEndWithTheSameModel) {
  for (const Mode mode : kModes) {
    for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
      TrainerConfig job = SmallJob(4, 120);
      job.optimizer.kind = kind;
      if (kind == OptimizerConfig::Kind::kAdamW) job.schedule.peak = 0.02;
      Collected models(4);
      RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
        SmallRank rank(config, groups, SmallPlan(1, mode));
        const double before = rank.Evaluate();
        EXPECT_TRUE(rank.Train().ok());
        EXPECT_LT(rank.Evaluate(), 0.8 * before);
        models.Add(config.rank(), CopyOf(rank.model));
        EXPECT_GE(rank.slipstream.steps_done(), 120);
        const SlipstreamFigures figures = rank.slipstream.figures();
        EXPECT_EQ(figures.mode, mode);
        EXPECT_EQ(figures.steps, rank.steps);
        EXPECT_EQ(figures.sent_updates + figures.used_gradients + figures.dropped_gradients,
                  rank.steps);
        EXPECT_TRUE(figures.loss.has_value());
      });
      models.ExpectAllSame();
    }
  }
}

// Rank 0's loss on samples that nobody trains with.
double LossAfter(TrainerConfig job, Mode mode, WireFormat format) {
  job.gradient_format = format;
  double loss = 0;
  Collected models(job.member.world_size);
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    SmallRank rank(config, groups, SmallPlan(1, mode, {1, 2, 8}));
    SmallRank::Hooks hooks;
    // One step for each round: a round that took many steps would let the ranks drift apart,
    // whatever it sends. (In mode pause they cannot.)
    int64_t rounds = -1;
    hooks.before_step = [&] {
      while (mode == Mode::kFree && rank.slipstream.rounds() == rounds) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      rounds = rank.slipstream.rounds();
    };
    EXPECT_TRUE(rank.Train(hooks).ok());
    models.Add(config.rank(), CopyOf(rank.model));
    if (config.rank() == 0) loss = rank.Evaluate();
  });
  models.ExpectAllSame();
  return loss;
}

TEST(SlipstreamTest, UpdatesAsInt8TrainAsWell) {
  const TrainerConfig job = SmallJob(4, 200);
  const double untrained = LossAfter(SmallJob(4, 1), Mode::kFree, WireFormat::kFp32);
  for (const Mode mode : {Mode::kFree, Mode::kPause}) {
    const double exact = LossAfter(job, mode, WireFormat::kFp32);
    const double rounded = LossAfter(job, mode, WireFormat::kInt8);
    EXPECT_LT(exact, 0.5 * untrained);
    EXPECT_LT(rounded, exact + 0.1 * untrained);
  }
}

TEST(SlipstreamTest, SyncIsTheMeanOfAllGradients) {
  TrainerConfig job = SmallJob(3, 30);
  job.schedule.kind = LrSchedule::Kind::kCosine;
  for (const auto kind : {OptimizerConfig::Kind::kSgd, OptimizerConfig::Kind::kAdamW}) {
    job.optimizer.kind = kind;
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      SmallRank rank(config, groups, SmallPlan(1, Mode::kSync));
      const Tensors initial = CopyOf(rank.model);
      EXPECT_TRUE(rank.Train().ok());
      Tensors parameters = CopyOf(rank.model);
      parameters.resize(rank.model.parameters().size());
      ExpectNear(parameters, SynchronousTraining(config, initial));
      EXPECT_EQ(rank.steps, 30);
    });
  }
}

TEST(SlipstreamTest, APauseForEachStepWithAveragedMomentumIsSynchronous) {
  const TrainerConfig job = SmallJob(3, 30);
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    TrainingPlan plan = SmallPlan(1, Mode::kPause, {1, 1, 1});
    plan.slipstream->averages_state = true;
    SmallRank rank(config, groups, plan);
    const Tensors initial = CopyOf(rank.model);
    EXPECT_TRUE(rank.Train().ok());
    Tensors parameters = CopyOf(rank.model);
    parameters.resize(rank.model.parameters().size());
    ExpectNear(parameters, SynchronousTraining(config, initial));
    EXPECT_EQ(rank.steps, 30);
  });
}

TEST(SlipstreamTest, ModesChangeWhileRanksTrainAndNoneIsLeftBehind) {
  constexpr int64_t kVersions = 200;
  TrainerConfig job = SmallJob(3, 1'000'000);
  job.schedule.peak = 0.01;
  Collected models(3);
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    SmallRank rank(config, groups, SmallPlan(1, Mode::kFree));
    int64_t prepared = 1;
    SmallRank::Hooks hooks;
    hooks.before_step = [&] {
      if (rank.slipstream.plan().version < prepared) return;
      if (prepared == kVersions) return rank.slipstream.ReadyToLeave(2);
      ++prepared;
      rank.slipstream.Prepare(SmallPlan(prepared, kModes[(prepared * prepared / 3) % 4]));
    };
    EXPECT_TRUE(rank.Train(hooks).ok());
    EXPECT_EQ(rank.slipstream.plan().version, kVersions);
    EXPECT_EQ(rank.control.status().active_version, kVersions);
    EXPECT_EQ(rank.control.status().prepared_version, kVersions);
    Tensors all = CopyOf(rank.model);
    if (!IsLocal(rank.slipstream.plan().mode)) {
      for (const at::Tensor& slot : TensorsOf(rank.optimizer->Slots())) all.push_back(slot);
    }
    models.Add(config.rank(), all);
  });
  models.ExpectAllSame();
}

TEST(SlipstreamTest, APlanOfAnotherStrategyFails) {
  RunRanks(SmallJob(1, 5), [&](const TrainerConfig& config, Groups& groups) {
    SmallRank rank(config, groups, SmallPlan(1, Mode::kFree));
    TrainingPlan plan;
    plan.version = 2;
    rank.slipstream.Prepare(plan);
    EXPECT_EQ(rank.control.status().failed_version, 2);
    EXPECT_THAT(rank.control.status().error, testing::HasSubstr("slipstream"));
    EXPECT_TRUE(rank.Train().ok());
  });
}

// As somebody's whose state has no mean.
class NoMean : public Optimizer {
 public:
  explicit NoMean(std::vector<at::Tensor> parameters) : Optimizer(std::move(parameters)) {}
  void Update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
              const at::Tensor& /*learning_rate*/, const at::Tensor& /*skip*/) override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (gradients[i].defined()) at::Tensor(parameters[i]).sub_(gradients[i], 0.01);
    }
  }
  std::vector<OptimizerSlot> Slots() const override { return {}; }
  std::vector<at::Tensor> StepCounts() const override { return {}; }
  absl::Status CheckMean() const override { return absl::InvalidArgumentError("has no mean"); }
};

TEST(SlipstreamTest, AModeThatNeedsTheMeanOfStatesFailsWhereThereIsNone) {
  struct Case {
    Mode from;
    Mode to;
    bool averages;
    bool fails;
  };
  for (const Case& one :
       {Case{Mode::kFree, Mode::kDrop, false, true}, Case{Mode::kFree, Mode::kPause, true, true},
        Case{Mode::kFree, Mode::kPause, false, false}, Case{Mode::kDrop, Mode::kSync, false, false},
        Case{Mode::kDrop, Mode::kFree, false, false}}) {
    RunRanks(SmallJob(2, 30), [&](const TrainerConfig& config, Groups& groups) {
      const auto state = std::make_shared<SmallState>(config);
      state->optimizer = std::make_unique<NoMean>(TensorsOf(state->model.parameters()));
      SmallRank rank(config, groups, SmallPlan(1, one.from), state);
      TrainingPlan plan = SmallPlan(2, one.to);
      plan.slipstream->averages_state = one.averages;
      rank.slipstream.Prepare(plan);
      EXPECT_EQ(rank.control.status().failed_version, one.fails ? 2 : 0);
      if (one.fails) {
        EXPECT_THAT(rank.control.status().error, testing::HasSubstr("has no mean"));
      }
      EXPECT_TRUE(rank.Train().ok());
    });
  }
}

TEST(SlipstreamTest, AllRanksStopWithTheSameModelForWhatIsDue) {
  for (const Mode mode : kModes) {
    TrainerConfig job = SmallJob(3, 300);
    job.data.eval = "some";
    job.eval_every = 80;
    job.checkpoint.directory = "somewhere";
    job.checkpoint.every_steps = 70;
    Collected models(3);
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      SmallRank rank(config, groups, SmallPlan(1, mode, {1, 2, 8}));
      int evaluations = 0;
      int saves = 0;
      int64_t ordered = 0;
      SmallRank::Hooks hooks;
      hooks.before_step = [&] {
        if (rank.steps == 2 + config.rank()) rank.slipstream.OrderSave(7);
      };
      hooks.at_stop = [&](const Slipstream::Order& order) {
        evaluations += order.evaluates ? 1 : 0;
        saves += order.saves ? 1 : 0;
        ordered = std::max(ordered, order.save_order);
        EXPECT_EQ(order.ahead, 0);
        models.Add(config.rank(), CopyOf(rank.model));
        // Nobody continues before all have come.
        at::Tensor sum = at::zeros({1});
        groups.all().Sum(sum);
      };
      EXPECT_TRUE(rank.Train(hooks).ok());
      EXPECT_EQ(evaluations, 3);
      EXPECT_EQ(saves, 4);
      EXPECT_EQ(std::max(ordered, rank.last.save_order), 7);
    });
    models.ExpectAllSame();
  }
}

TEST(SlipstreamTest, CollectivesHaveLongUntilTheFirstStepsOfAllRanksAreOver) {
  TrainerConfig job = SmallJob(3, 1'000'000);
  job.collective_timeout = absl::Seconds(1);
  const absl::Duration longer = absl::Seconds(3);
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    SmallRank rank(config, groups, SmallPlan(1, Mode::kSync));
    SmallRank::Hooks hooks;
    hooks.before_step = [&] {
      if (config.rank() == 1 && (rank.steps == 1 || rank.steps == 10)) absl::SleepFor(longer);
    };
    EXPECT_THROW((void)rank.Train(hooks), CollectiveError);
    EXPECT_GE(rank.steps, 10) << "the first time the others wait";
  });
}

TEST(SlipstreamTest, AClockThatRunsFastMakesNobodyWait) {
  Collected models(3);
  RunRanks(SmallJob(3, 600), [&](const TrainerConfig& config, Groups& groups) {
    const auto state = std::make_shared<SmallState>(config);
    if (config.rank() == 1) {
      state->memory.now = [] {
        return absl::UnixEpoch() + 1.02 * (SteadyNow() - absl::UnixEpoch());
      };
    }
    SmallRank rank(config, groups, SmallPlan(1, Mode::kFree, {1, 4, 16}), state);
    const absl::Time start = absl::Now();
    SmallRank::Hooks hooks;
    hooks.before_step = [] { absl::SleepFor(absl::Milliseconds(2)); };
    EXPECT_TRUE(rank.Train(hooks).ok());
    const SlipstreamFigures figures = rank.slipstream.figures();
    EXPECT_GT(figures.contributions, figures.rounds / 4) << "each has its part in the rounds";
    EXPECT_LT(figures.cap_wait_s, 0.5 * absl::ToDoubleSeconds(absl::Now() - start));
    models.Add(config.rank(), CopyOf(rank.model));
  });
  models.ExpectAllSame();
}

// Rank 3 computes one step while the others make 100 rounds: if they waited for it, there would be
// none. (Their total wait also depends on the machine.)
TEST(SlipstreamTest, ASilentRankHoldsUpNobody) {
  RunRanks(SmallJob(4, 1500), [&](const TrainerConfig& config, Groups& groups) {
    SmallRank rank(config, groups, SmallPlan(1, Mode::kFree));
    SlipstreamFigures before;
    SlipstreamFigures after;
    absl::Time start;
    absl::Duration took;
    SmallRank::Hooks hooks;
    hooks.before_step = [&] {
      const SlipstreamFigures figures = rank.slipstream.figures();
      if (config.rank() == 3 && rank.steps == 20) {
        while (rank.slipstream.figures().rounds < figures.rounds + 100) {
          absl::SleepFor(absl::Milliseconds(5));
        }
        return;
      }
      absl::SleepFor(absl::Milliseconds(2));
      if (rank.steps == 20) {
        before = figures;
        start = absl::Now();
      } else if (before.rounds > 0 && after.rounds == 0 && figures.rounds >= before.rounds + 90) {
        after = figures;
        took = absl::Now() - start;
      }
    };
    EXPECT_TRUE(rank.Train(hooks).ok());
    if (config.rank() == 3) {
      EXPECT_GT(rank.slipstream.figures().sent_updates, 20) << "it is back with its work";
      return;
    }
    EXPECT_GT(after.rounds, 0) << "the rounds went on";
    const double waited =
        after.cap_wait_s + after.round_wait_s - before.cap_wait_s - before.round_wait_s;
    EXPECT_LT(waited, 0.5 * absl::ToDoubleSeconds(took));
  });
}

}  // namespace
}  // namespace paceline
