// Slipstream jobs lose ranks and continue in another generation.
#include "worker/trainer/generation/slipstream_rendezvous.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "worker/trainer/comm/connections.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/loop/attachments.h"
#include "worker/trainer/slipstream/testing/test_rank.h"

namespace paceline {
namespace {

using Mode = SlipstreamMode;

constexpr Mode kModes[] = {Mode::kSync, Mode::kDrop, Mode::kFree, Mode::kPause};

struct Survivor {
  std::shared_ptr<SmallState> small;
  TrainingState training;
};

// The state of each rank, and functions for what happens in one generation.
class MembershipTest : public testing::Test {
 protected:
  TrainingPlan Plan() const { return SmallPlan(1, mode_, {1, 2, 8}); }

  TrainerConfig Job(int64_t generation, int ranks) const {
    TrainerConfig job = SmallJob(ranks, 300);
    job.member.generation = generation;
    job.schedule.peak = 0.02;
    job.data.eval = "some";
    job.eval_every = 100;
    return job;
  }

  // Resets all ranks: the first generation begins.
  void Begin(int ranks) {
    survivors_.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      survivors_.push_back({std::make_shared<SmallState>(Job(1, ranks)), {}});
    }
  }

  // Runs a generation that breaks off when rank `dies` reaches this step or stop.
  void BreakOff(int64_t generation, int dies, int64_t at_step, bool at_stop) {
    ::signal(SIGPIPE, SIG_IGN);  // As a trainer does.
    absl::Notification ends;
    RunRanks(Job(generation, ranks()), [&](const TrainerConfig& config, Groups& groups) {
      std::thread aborts([&] {
        ends.WaitForNotification();
        groups.Abort();
      });
      Survivor& own = survivors_[static_cast<size_t>(config.rank())];
      RunRendezvous(config, groups, own);
      SmallRank rank(config, groups, Plan(), own.small);
      const auto die = [&] {
        groups.connections().ShutDown(/*store_port=*/0);
        if (!ends.HasBeenNotified()) ends.Notify();
      };
      SmallRank::Hooks hooks;
      hooks.before_step = [&] {
        if (!at_stop && config.rank() == dies && rank.steps >= at_step) die();
      };
      hooks.at_stop = [&](const Slipstream::Order& /*order*/) {
        at::Tensor sum = at::zeros({1});
        groups.all().Sum(sum);  // All have come.
        if (at_stop && config.rank() == dies) die();
        groups.all().Sum(sum);
      };
      EXPECT_THROW((void)rank.Train(hooks), CollectiveError);
      aborts.join();
    });
  }

  void Lose(int rank) { survivors_.erase(survivors_.begin() + rank); }
  void Add() { survivors_.push_back({std::make_shared<SmallState>(Job(1, 1)), {}}); }

  // Runs a generation to the end, after which all ranks are equal. Returns the steps at which rank
  // 0 stopped to evaluate.
  std::vector<int64_t> Finish(int64_t generation, const std::vector<int>& newcomers) {
    std::vector<int64_t> stops;
    std::vector<std::vector<at::Tensor>> models(survivors_.size());
    RunRanks(Job(generation, ranks()), [&](const TrainerConfig& config, Groups& groups) {
      const auto number = static_cast<size_t>(config.rank());
      Survivor& own = survivors_[number];
      const bool is_new =
          std::find(newcomers.begin(), newcomers.end(), config.rank()) != newcomers.end();
      EXPECT_FALSE(RunRendezvous(config, groups, own));
      EXPECT_EQ(own.training.position.step, own.small->memory.rank->state().total.steps());
      SmallRank rank(config, groups, Plan(), own.small);
      SmallRank::Hooks hooks;
      hooks.at_stop = [&](const Slipstream::Order& order) {
        if (config.rank() == 0 && order.evaluates) stops.push_back(order.step);
        at::Tensor sum = at::zeros({1});
        groups.all().Sum(sum);
      };
      EXPECT_TRUE(rank.Train(hooks).ok());
      const SlipstreamFigures figures = rank.slipstream.figures();
      EXPECT_EQ(figures.lost_updates, 0) << "rank " << config.rank();
      EXPECT_EQ(figures.dropped_gradients + figures.used_gradients + figures.sent_updates,
                figures.steps);
      if (is_new) {
        EXPECT_GT(figures.contributions, 0);
      }
      models[number] = CopyOf(rank.model);
    });
    for (const std::vector<at::Tensor>& model : models) {
      for (size_t i = 0; i < model.size(); ++i) EXPECT_TRUE(at::equal(model[i], models[0][i]));
    }
    return stops;
  }

  // Returns whether the training begins.
  static bool RunRendezvous(const TrainerConfig& config, Groups& groups, Survivor& own,
                            Attachments* attachments = nullptr) {
    const absl::StatusOr<bool> begins = RunSlipstreamRendezvous(
        {config, TrainingPlan(), groups, own.small->model, *own.small->optimizer, attachments,
         /*undo=*/nullptr},
        own.small->memory, own.training);
    EXPECT_TRUE(begins.ok()) << begins.status();
    return begins.ok() && *begins;
  }

  // Rank 0 was cut off in round 8, which rank 1 has finished; others are new.
  void PretendTraining(int rank, Survivor& own) const {
    if (rank > 1) return;
    SlipstreamMemory& memory = own.small->memory;
    memory.buffers = std::make_unique<SlipstreamBuffers>(own.small->model);
    at::Tensor(memory.buffers->z()).fill_(rank);
    memory.own_steps = 50 + rank;
    RoundState state;
    state.total = RankSteps(3, 20 + rank);
    state.round = 7 + rank;
    state.round_generation = 1;
    state.plan = *Plan().slipstream;
    TrainerConfig before = Job(1, 3);
    before.member.rank = rank;
    memory.Join(before, state);
  }

  int ranks() const { return static_cast<int>(survivors_.size()); }

  Mode mode_ = Mode::kFree;
  std::vector<Survivor> survivors_;
};

TEST_F(MembershipTest, AfterALossInARoundTheOthersGoOnWithAllTheirWork) {
  for (const Mode mode : kModes) {
    mode_ = mode;
    for (const int64_t at_step : {20, 31}) {
      Begin(3);
      BreakOff(1, /*dies=*/1, at_step, /*at_stop=*/false);
      Lose(1);
      Finish(2, {});
      if (HasFailure()) return;
    }
  }
}

TEST_F(MembershipTest, ANewcomerTakesAll) {
  for (const Mode mode : kModes) {
    mode_ = mode;
    Begin(3);
    BreakOff(1, /*dies=*/0, /*at_step=*/25, /*at_stop=*/false);
    Lose(0);
    Add();
    Finish(2, {2});
    if (HasFailure()) return;
  }
}

TEST_F(MembershipTest, AStopThatBrokeOffIsMadeAgain) {
  for (const Mode mode : {Mode::kDrop, Mode::kFree}) {
    mode_ = mode;
    Begin(3);
    BreakOff(1, /*dies=*/2, /*at_step=*/0, /*at_stop=*/true);
    EXPECT_TRUE(survivors_[0].small->memory.rank->state().stands);
    Lose(2);
    const std::vector<int64_t> stops = Finish(2, {});
    ASSERT_EQ(stops.size(), 2u) << "for the first period again, and for the second";
    EXPECT_LT(stops[0], 150);
    EXPECT_GE(stops[1], 200);
  }
}

TEST_F(MembershipTest, WhoHasLoadedSomethingElseDoesNotBegin) {
  Begin(2);
  RunRanks(Job(1, 2), [&](const TrainerConfig& config, Groups& groups) {
    Survivor& own = survivors_[static_cast<size_t>(config.rank())];
    own.training.position.step = 10 * config.rank();
    const absl::StatusOr<bool> begins = RunSlipstreamRendezvous(
        {config, TrainingPlan(), groups, own.small->model, *own.small->optimizer,
         /*attachments=*/nullptr, /*undo=*/nullptr},
        own.small->memory, own.training);
    EXPECT_EQ(begins.status().code(), absl::StatusCode::kInvalidArgument);
  });
}

TEST_F(MembershipTest, SeveralGenerationsBreakOff) {
  mode_ = Mode::kFree;
  Begin(4);
  for (int64_t generation = 1; generation <= 3; ++generation) {
    BreakOff(generation, /*dies=*/1, 15 * generation, /*at_stop=*/false);
    Lose(1);
    Add();
  }
  Finish(4, {});
}

TEST_F(MembershipTest, EachTakesWhatItMisses) {
  for (const Mode mode : kModes) {
    mode_ = mode;
    Begin(3);
    RunRanks(Job(2, 3), [&](const TrainerConfig& config, Groups& groups) {
      const int rank = config.rank();
      Survivor& own = survivors_[static_cast<size_t>(rank)];
      SlipstreamMemory& memory = own.small->memory;
      const at::Tensor slot = TensorsOf(own.small->optimizer->Slots()).front();
      at::Tensor(slot).fill_(rank);
      own.training.data = {0, 100 + rank};
      PretendTraining(rank, own);
      EXPECT_FALSE(RunRendezvous(config, groups, own));
      EXPECT_EQ(memory.buffers->z()[3].item<float>(), 1);
      EXPECT_EQ(slot.flatten()[0].item<float>(), rank == 0 && IsLocal(mode) ? 0 : 1);
      EXPECT_EQ(memory.rank->state().round, 8);
      EXPECT_EQ(memory.rank->state().generation, 2);
      EXPECT_EQ(memory.rank->state().total, RankSteps(3, 21));
      EXPECT_EQ(own.training.position.step, 21);
      EXPECT_EQ(own.training.data.offset, rank == 0 ? 100 : 101) << "each has its own samples";
      EXPECT_EQ(memory.own_steps, rank == 0 ? 50 : 51);
    });
  }
}

// A number for each scope.
class AttachedNumbers : public Attachments {
 public:
  explicit AttachedNumbers(double shared)
      : shared_(at::full({1}, shared)), own_(at::full({1}, shared + 10)) {}

  std::string Names() const override { return "numbers"; }
  Attachment Take(Scope scope) const override { return {"one", {Of(scope)}}; }
  std::vector<at::Tensor> Allocate(Scope /*scope*/, const std::string& /*schema*/) const override {
    return {at::zeros({1})};
  }
  void Put(Scope scope, const Attachment& attachment) override {
    at::Tensor(Of(scope)).copy_(attachment.tensors.at(0));
  }
  void Keep() override {}
  void Undo() override {}

  double Value(Scope scope) const { return Of(scope).item<double>(); }

 private:
  const at::Tensor& Of(Scope scope) const { return scope == Scope::kShared ? shared_ : own_; }

  const at::Tensor shared_;
  const at::Tensor own_;
};

TEST_F(MembershipTest, WhatIsAttachedIsTakenLikeTheOptimizersState) {
  for (const Mode mode : kModes) {
    mode_ = mode;
    Begin(3);
    RunRanks(Job(2, 3), [&](const TrainerConfig& config, Groups& groups) {
      const int rank = config.rank();
      Survivor& own = survivors_[static_cast<size_t>(rank)];
      PretendTraining(rank, own);
      AttachedNumbers attached(rank);
      EXPECT_FALSE(RunRendezvous(config, groups, own, &attached));
      EXPECT_EQ(attached.Value(Attachments::Scope::kShared), rank == 0 && IsLocal(mode) ? 0 : 1);
      EXPECT_EQ(attached.Value(Attachments::Scope::kOwn), rank == 0 ? 10 : 11);
    });
  }
}

TEST_F(MembershipTest, RanksThatHaveNeverTrainedBegin) {
  Begin(2);
  RunRanks(Job(1, 2), [&](const TrainerConfig& config, Groups& groups) {
    EXPECT_TRUE(RunRendezvous(config, groups, survivors_[static_cast<size_t>(config.rank())]));
  });
}

}  // namespace
}  // namespace paceline
