// A user's script that trains with Slipstream, and by strategies that change, in real processes.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "proto/job_spec.pb.h"
#include "python/tests/session_fixture.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::HasSubstr;

constexpr const char* kModes[] = {"FREE", "PAUSE", "DROP", "SYNC"};
// The script's own, which the job's file has to have with Slipstream.
constexpr char kClip[] = "clip_grad_norm: 1 ";

std::string Slipstream(const std::string& mode) {
  return absl::StrCat("slipstream { mode: SLIPSTREAM_", mode,
                      " window { min_steps: 1 max_steps: 2 max_cap: 8 } } ");
}

std::string Strategy(const std::string& mode) {
  return absl::StrCat("strategy { ", Slipstream(mode), "} ", kClip);
}

v1::Strategy StrategyOf(const std::string& text) {
  v1::Strategy strategy;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &strategy)) << text;
  return strategy;
}

class SlipstreamSessionTest : public SessionFixture {
 protected:
  void TrainAndCheck(const std::string& changes) {
    const auto daemon =
        RunJob(SessionSpec(3, "out", absl::StrCat("steps: 60 evaluation { every: 20 } ", changes)));
    ExpectOneModel("out", 3);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_GT(daemon->status(rank).figures().slipstream().steps(), 0);
      EXPECT_EQ(daemon->status(rank).evaluation().step(), 60);
      EXPECT_GT(daemon->status(rank).evaluation().accuracy(), 0.5);
      EXPECT_THAT(daemon->Log(rank), HasSubstr("the schedule has made 60 steps"));
    }
    EXPECT_GE(Values(*daemon, 0, "accuracy").size(), 2U) << "at the period, and at the end";
  }

  // Rank 1 of three is killed, and a spare, trainer 3, takes its place.
  std::unique_ptr<FakeDaemon> ReplaceARank(const std::string& strategy) {
    auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(3, "out", absl::StrCat("steps: 60 ", strategy, Slowed(20, 0.3)),
                               /*at=*/"", /*spares=*/1));
    WaitUntilReady(*daemon, 3);
    // Ranks need not be equally far.
    for (int rank = 0; rank < 3; ++rank) WaitForSteps(*daemon, rank, 10);
    daemon->Signal(1, SIGKILL);
    WaitForEnd(*daemon, 1);
    daemon->SetMembers({{0, 3, 2}});
    WaitUntilRendezvous(*daemon);
    EXPECT_GT(daemon->status(3).membership().step(), 0) << "nothing starts over";
    WaitForSuccess(*daemon, {0, 3, 2});
    ExpectOneModel("out", 3);
    for (const int trainer : {0, 3, 2}) {
      EXPECT_THAT(daemon->Log(trainer), HasSubstr("the schedule has made 60 steps"));
    }
    return daemon;
  }

  // Changes the strategy; all go on from where they are.
  static void ChangeTo(FakeDaemon& daemon, const v1::Strategy& strategy) {
    const int64_t before = daemon.status(0).membership().step();
    FakeDaemon::Members members;
    members.trainers = {0, 1, 2};
    members.planned = true;
    members.strategy = strategy;
    daemon.SetMembers(members);
    WaitUntilRendezvous(daemon);
    for (const int trainer : members.trainers) {
      ASSERT_FALSE(daemon.ended(trainer)) << daemon.Log(trainer);
      EXPECT_EQ(daemon.status(trainer).membership().error(), "");
      EXPECT_GT(daemon.status(trainer).membership().step(), before);
    }
    const absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(0));
    ASSERT_TRUE(ring.ok()) << ring.status();
    WaitForSteps(daemon, 0, ring->Written() + 10);
    ASSERT_TRUE(daemon.Serve(
        [&] { return daemon.status(0).figures().has_slipstream() == strategy.has_slipstream(); }));
  }
};

TEST_F(SlipstreamSessionTest, EachModeTrainsAllRanksToOneModel) {
  for (const char* mode : kModes) {
    SCOPED_TRACE(mode);
    TrainAndCheck(Strategy(mode));
  }
}

TEST_F(SlipstreamSessionTest, RoundsAverageTheOptimizersState) {
  TrainAndCheck(absl::StrCat("strategy { ", Slipstream("PAUSE"),
                             "optimizer_state: OPTIMIZER_STATE_AVERAGE } ", kClip));
}

TEST_F(SlipstreamSessionTest, PlainCallsOfTorchAreTheSteps) {
  setenv("HABITS", "plain", 1);
  for (const char* mode : {"FREE", "DROP"}) {
    SCOPED_TRACE(mode);
    TrainAndCheck(Strategy(mode));
  }
  unsetenv("HABITS");
}

TEST_F(SlipstreamSessionTest, UpdatesMakeOneModelWhateverTheOptimizerKeeps) {
  setenv("OPTIMIZER", "Adafactor", 1);
  const auto daemon = RunJob(SessionSpec(3, "out", absl::StrCat(Strategy("DROP"), "steps: 30 ")));
  ExpectOneModel("out", 3);
  unsetenv("OPTIMIZER");
}

// Clipping, schedule, dropout and all: the same but for rounding.
TEST_F(SlipstreamSessionTest, SynchronousRoundsTrainLikeDdp) {
  const auto ddp = RunJob(SessionSpec(3, "ddp", absl::StrCat("steps: 12 ", kClip)));
  const auto sync = RunJob(SessionSpec(3, "sync", absl::StrCat("steps: 12 ", Strategy("SYNC"))));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Values(*sync, rank, "lr"), Values(*ddp, rank, "lr"));
    const std::map<int64_t, std::string> expected = Losses(*ddp, rank);
    const std::map<int64_t, std::string> losses = Losses(*sync, rank);
    ASSERT_EQ(expected.size(), 12U);
    ASSERT_EQ(losses.size(), expected.size());
    for (const auto& [step, text] : expected) {
      ASSERT_EQ(losses.count(step), 1U) << step;
      EXPECT_NEAR(std::stod(losses.at(step)) / std::stod(text), 1, 2e-3)
          << "step " << step << " of rank " << rank;
    }
  }
}

TEST_F(SlipstreamSessionTest, ASpareTakesThePlaceOfALostRank) {
  for (const char* mode : {"FREE", "DROP"}) {
    SCOPED_TRACE(mode);
    ReplaceARank(Strategy(mode));
  }
}

TEST_F(SlipstreamSessionTest, ASpareThatHasRehearsedTakesThePlaceOfALostRank) {
  setenv("HABITS", "rehearse", 1);
  for (const std::string& strategy :
       {Strategy("FREE"), Strategy("DROP"), std::string("strategy { local_sgd { period: 4 } } "),
        std::string("strategy { hsgd { ladder { period: 3 size: 3 } } } ")}) {
    SCOPED_TRACE(strategy);
    EXPECT_THAT(ReplaceARank(strategy)->Log(3), HasSubstr("this spare has rehearsed a step"));
  }
  unsetenv("HABITS");
}

TEST_F(SlipstreamSessionTest, ModesChangeWhileItTrains) {
  const v1::JobSpec spec = SessionSpec(3, "out", absl::StrCat("steps: 1000000 ", Strategy("FREE")));
  const auto daemon = MakeDaemon();
  daemon->Launch(spec);
  int64_t version = 1;
  for (const char* mode : {"DROP", "PAUSE", "SYNC", "FREE"}) {
    daemon->SetPlan(daemon->MakePlan(++version, StrategyOf(Slipstream(mode))));
    ASSERT_TRUE(daemon->Serve([&] {
      for (int rank = 0; rank < 3; ++rank) {
        if (daemon->status(rank).plan().active_version() != version) return false;
      }
      return true;
    })) << daemon->Log(0);
  }
  for (int rank = 0; rank < 3; ++rank) daemon->Stop(rank);
  WaitForSuccess(*daemon, {0, 1, 2});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(daemon->Log(rank), HasSubstr("the script has ended"));
  }
}

TEST_F(SlipstreamSessionTest, RanksThatWaitForOneThatHasStoppedStopToo) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "out", absl::StrCat("steps: 1000000 ", Strategy("SYNC"))));
  WaitForSteps(*daemon, 0, 5);
  for (int rank = 0; rank < 3; ++rank) daemon->Stop(rank);
  WaitForSuccess(*daemon, {0, 1, 2});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(daemon->Log(rank), HasSubstr("the script has ended"));
  }
}

TEST_F(SlipstreamSessionTest, AModeThatTheOptimizerCannotChangeToIsRefused) {
  setenv("OPTIMIZER", "Adafactor", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "out", absl::StrCat("steps: 1000000 ", Strategy("FREE"))));
  WaitForSteps(*daemon, 0, 5);
  daemon->SetPlan(daemon->MakePlan(2, StrategyOf(Slipstream("DROP"))));
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(daemon->Serve([&] { return daemon->status(rank).plan().failed_version() == 2; }));
    EXPECT_THAT(daemon->status(rank).plan().error(), HasSubstr("the state of Adafactor has"));
  }
  for (const int rank : {0, 1}) daemon->Stop(rank);
  WaitForSuccess(*daemon, {0, 1});
  unsetenv("OPTIMIZER");
}

TEST_F(SlipstreamSessionTest, AnotherClippingThanTheJobsIsRefused) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(1, "out", absl::StrCat("strategy { ", Slipstream("FREE"), "} ")));
  WaitForEnd(*daemon, 0);
  EXPECT_EQ(daemon->exit_code(0), 1);
  EXPECT_THAT(daemon->LastWords(0).error().message(), HasSubstr("give clip_grad_norm: 1.0"));
}

TEST_F(SlipstreamSessionTest, AScriptThatAsksForASaveIsRefused) {
  setenv("HABITS", "saves", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(
      1, "out",
      absl::StrCat(Strategy("FREE"), "checkpoint { directory: '", directory_, "/checkpoints' } ")));
  WaitForEnd(*daemon, 0);
  EXPECT_EQ(daemon->exit_code(0), 1);
  EXPECT_THAT(daemon->LastWords(0).error().message(),
              HasSubstr("run.save() does not go with strategy slipstream"));
  unsetenv("HABITS");
}

TEST_F(SlipstreamSessionTest, ItGoesOnFromACheckpoint) {
  for (const char* mode : {"FREE", "DROP"}) {
    SCOPED_TRACE(mode);
    std::filesystem::remove_all(directory_ + "/checkpoints");
    const std::string changes =
        absl::StrCat(Strategy(mode), "checkpoint { directory: '", directory_,
                     "/checkpoints' every_steps: 1000 at_end: true } ");
    RunJob(SessionSpec(3, "out", absl::StrCat("steps: 20 ", changes)));
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(3, "out", absl::StrCat("steps: 40 ", changes)), /*generation=*/2,
                   absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/",
                                CheckpointName({20, 1})));
    ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
    ExpectOneModel("out", 3);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
      const std::vector<double> steps = Values(*daemon, rank, "step");
      ASSERT_FALSE(steps.empty());
      EXPECT_GE(*std::min_element(steps.begin(), steps.end()), 20);
      EXPECT_THAT(daemon->Log(rank), HasSubstr("the schedule has made 40 steps"));
    }
  }
}

TEST_F(SlipstreamSessionTest, TheStrategyChangesLive) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(
      3, "out", absl::StrCat("steps: 1000 strategy { auto {} } ", kClip, Slowed(0, 0.03))));
  WaitForSteps(*daemon, 0, 20);
  EXPECT_FALSE(daemon->status(0).figures().has_slipstream()) << "it begins with ddp";
  ChangeTo(*daemon, StrategyOf(Slipstream("FREE")));
  ChangeTo(*daemon, StrategyOf("ddp {}"));
  ChangeTo(*daemon, StrategyOf(Slipstream("DROP")));
  ChangeTo(*daemon, StrategyOf("ddp {}"));
  WaitForSuccess(*daemon, {0, 1, 2});
  ExpectOneModel("out", 3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(daemon->Log(rank), HasSubstr("the schedule has made 1000 steps"));
  }
}

}  // namespace
}  // namespace paceline
