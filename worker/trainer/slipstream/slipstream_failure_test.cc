// Slipstream ranks when a collective fails, an update is bad, or models differ.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <limits>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "worker/trainer/comm/connections.h"
#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/slipstream/slipstream.h"
#include "worker/trainer/slipstream/testing/test_rank.h"

namespace paceline {
namespace {

using Mode = SlipstreamMode;
using testing::HasSubstr;

constexpr Mode kModes[] = {Mode::kSync, Mode::kDrop, Mode::kFree, Mode::kPause};

// Spoils the current step's gradients.
void Spoil(SmallRank& rank) {
  const at::NoGradGuard no_grad;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  rank.model.parameters().front().tensor.mutable_grad().fill_(nan);
}

TEST(SlipstreamFailureTest, WhenConnectionsEndAllRanksAreTold) {
  ::signal(SIGPIPE, SIG_IGN);  // As a trainer does.
  for (const Mode mode : kModes) {
    absl::Notification ends;
    RunRanks(SmallJob(3, 1'000'000), [&](const TrainerConfig& config, Groups& groups) {
      SmallRank rank(config, groups, SmallPlan(1, mode));
      std::thread aborts([&] {
        ends.WaitForNotification();
        groups.Abort();
      });
      SmallRank::Hooks hooks;
      hooks.before_step = [&] {
        if (config.rank() != 1 || rank.steps != 30) return;
        groups.connections().ShutDown(/*store_port=*/0);
        ends.Notify();
      };
      EXPECT_THROW((void)rank.Train(hooks), CollectiveError);
      EXPECT_THROW((void)rank.Train(), CollectiveError) << "it is over";
      aborts.join();
    });
  }
}

TEST(SlipstreamFailureTest, ABadUpdateStopsAllAndItsRankIsNamed) {
  for (const Mode mode : kModes) {
    RunRanks(SmallJob(3, 1'000'000), [&](const TrainerConfig& config, Groups& groups) {
      SmallRank rank(config, groups, SmallPlan(1, mode));
      SmallRank::Hooks hooks;
      hooks.before_update = [&] {
        if (config.rank() == 1 && rank.steps == 10) Spoil(rank);
      };
      const absl::Status status = rank.Train(hooks);
      EXPECT_EQ(status.code(),
                config.rank() == 1 ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 cannot go on"));
      if (config.rank() == 1) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("is not finite"));
      }
    });
  }
}

TEST(SlipstreamFailureTest, ABadUpdateIsLeftOutIfTheJobSaysSo) {
  for (const Mode mode : kModes) {
    TrainerConfig job = SmallJob(3, 60);
    job.on_nonfinite = NonFinite::kSkip;
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      SmallRank rank(config, groups, SmallPlan(1, mode));
      SmallRank::Hooks hooks;
      hooks.before_update = [&] {
        if (config.rank() == 1 && rank.steps == 10) Spoil(rank);
      };
      EXPECT_TRUE(rank.Train(hooks).ok());
      const SlipstreamFigures figures = rank.slipstream.figures();
      EXPECT_TRUE(rank.memory.buffers->z().isfinite().all().item<bool>());
      EXPECT_GE(figures.lost_updates + figures.dropped_gradients, config.rank() == 1 ? 1 : 0);
      for (const at::Tensor& slot : TensorsOf(rank.optimizer->Slots())) {
        EXPECT_TRUE(slot.isfinite().all().item<bool>());
      }
    });
  }
}

TEST(SlipstreamFailureTest, AFlippedBitOfTheModelIsFoundAndItsRankNamed) {
  for (const Mode mode : {Mode::kDrop, Mode::kFree}) {
    TrainerConfig job = SmallJob(3, 1'000'000);
    job.data.eval = "some";
    job.eval_every = 10;
    RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
      SmallRank rank(config, groups, SmallPlan(1, mode));
      bool flipped = false;
      SmallRank::Hooks hooks;
      hooks.at_stop = [&](const Slipstream::Order& /*order*/) {
        if (config.rank() != 2 || flipped) return;
        flipped = true;
        rank.slipstream.FlipBit();
      };
      const absl::Status status = rank.Train(hooks);
      EXPECT_TRUE(rank.slipstream.models_differ());
      EXPECT_THAT(std::string(status.message()), HasSubstr("the models of ranks 2 differ"));
      EXPECT_EQ(status.code(),
                config.rank() == 2 ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable);
    });
  }
}

}  // namespace
}  // namespace paceline
