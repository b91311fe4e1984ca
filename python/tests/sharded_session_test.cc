// A user's script that trains an FSDP2 model as the ranks of a job with shards, in real processes:
// ranks are lost at chosen places of a step, and checkpoints are restored by other numbers of ranks
// and shards (sharded_script.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "python/tests/session_fixture.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::HasSubstr;

class ShardedSessionTest : public SessionFixture {
 protected:
  struct Loss {
    std::string moments;  // Of one generation, as the script takes them.
    int victim = 0;       // The rank that dies in it.
  };

  void SetUp() override {
    SessionFixture::SetUp();
    setenv("SCRIPT", "python/tests/sharded_script.py", /*overwrite=*/1);
  }
  void TearDown() override {
    for (const char* name : {"SCRIPT", "HABITS"}) unsetenv(name);
    SessionFixture::TearDown();
  }

  // Waits until the trainer has ended, or the loss of another one has cut it off before its place:
  // then it is lost there.
  static void WaitForLoss(FakeDaemon& daemon, int victim) {
    ASSERT_TRUE(daemon.Serve([&] {
      return daemon.ended(victim) ||
             daemon.status(victim).membership().left_generation() >= daemon.generation();
    })) << daemon.Log(victim);
    if (!daemon.ended(victim)) daemon.Signal(victim, SIGKILL);
    WaitForEnd(daemon, victim);
  }

  // Two replicas lose ranks, one in each generation, whose places spares take: the job computes
  // what the undisturbed one does.
  void LoseAndCompare(const std::vector<Loss>& losses, const std::string& changes = "",
                      int shards = 2) {
    const int ranks = 2 * shards;
    const std::string all = absl::StrCat("shards: ", shards, " ", changes);
    const std::unique_ptr<FakeDaemon> undisturbed = RunUndisturbedSession(ranks, all);
    const std::string at = absl::StrJoin(losses, ",", [](std::string* out, const Loss& loss) {
      absl::StrAppend(out, loss.moments);
    });
    SCOPED_TRACE(at);
    const int spares = static_cast<int>(losses.size());
    const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(SessionSpec(ranks, "disturbed", all, at, spares));
    for (int spare = ranks; spare < ranks + spares; ++spare) WaitUntilReady(*daemon, spare);
    std::vector<int> trainers(static_cast<size_t>(ranks));
    std::iota(trainers.begin(), trainers.end(), 0);
    int spare = ranks;
    for (const Loss& loss : losses) {
      int& trainer = trainers[static_cast<size_t>(loss.victim)];
      WaitForLoss(*daemon, trainer);
      if (HasFatalFailure()) return;
      EXPECT_EQ(daemon->exit_signal(trainer), SIGKILL) << daemon->Log(trainer);
      trainer = spare++;
      daemon->SetMembers({trainers});
    }
    WaitForSuccess(*daemon, trainers);
    ExpectSame(*undisturbed, *daemon, trainers, "disturbed");
  }

  // What a rank has written of the whole model and its optimizer.
  std::string Whole(const std::string& name, int rank = 0) const {
    const std::string path =
        absl::StrCat(directory_, "/", name, "/whole.rank", rank, ".safetensors");
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    EXPECT_FALSE(bytes.str().empty()) << path;
    return bytes.str();
  }

  std::string Saved(int64_t step) const {
    return absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/",
                        CheckpointName({step, 1}));
  }
  std::string SaveEvery(int steps) const {
    return absl::StrCat("checkpoint { directory: '", directory_,
                        "/checkpoints' every_steps: ", steps,
                        " at_end: false when_busy: WHEN_BUSY_WAIT } ");
  }

  void ExpectRefusal(const std::string& changes, const std::string& habits,
                     const std::string& reason) {
    setenv("HABITS", habits.c_str(), 1);
    const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(SessionSpec(2, "failed", changes));
    WaitForEnd(*daemon, 0);
    EXPECT_THAT(daemon->LastWords(0).error().message(), HasSubstr(reason)) << daemon->Log(0);
  }
};

TEST_F(ShardedSessionTest, TrainsWithEvaluations) {
  const std::unique_ptr<FakeDaemon> daemon =
      RunUndisturbedSession(4, "shards: 2 evaluation { every: 10 } ");
  EXPECT_EQ(daemon->status(0).evaluation().step(), 24);
  EXPECT_EQ(Losses(*daemon, 3).size(), 24U);
}

TEST_F(ShardedSessionTest, HandlersAtExitRunInAJobWithCopies) {
  setenv("HABITS", "handler", 1);
  const std::unique_ptr<FakeDaemon> daemon =
      RunUndisturbedSession(2, "shards: 2 recovery { copy_every_steps: 5 } ");
  for (const int rank : {0, 1}) {
    EXPECT_EQ(daemon->status(rank).membership().copies().generation(), 1) << "it has no copies";
    EXPECT_THAT(daemon->Log(rank), HasSubstr("the handler has run"));
  }
}

TEST_F(ShardedSessionTest, AllReplicasAreEqual) {
  RunUndisturbedSession(4, "shards: 2 ");
  const std::string whole = Whole("undisturbed");
  for (const int rank : {1, 2, 3}) EXPECT_TRUE(Whole("undisturbed", rank) == whole) << rank;
}

TEST_F(ShardedSessionTest, ASpareTakesOverInAnyPhaseOfAStep) {
  LoseAndCompare({{"forward 3 1 kill", 1},
                  {"backward 7 2 kill", 2},
                  {"before_update 11 3 kill", 3},
                  {"updated 15 0 kill", 0}});
}

TEST_F(ShardedSessionTest, ASpareTakesOverInTheFirstStep) {
  LoseAndCompare({{"forward 0 3 kill", 3}, {"backward 0 0 kill", 0}});
}

// Rank 3 has made the update, and ranks 0 and 2 are prepared for it.
TEST_F(ShardedSessionTest, WithinTheWord) {
  LoseAndCompare({{"word 7 0 deaf+word 7 2 deaf+updated 7 1 kill", 1},
                  {"word 12 1 deaf+word 12 2 deaf+word 12 3 deaf+updated 12 0 kill", 0}});
}

// Rank 0 has made the update, and not the step of its schedule.
TEST_F(ShardedSessionTest, ACollectiveOfTheScriptBehindTheUpdateIsCutOff) {
  setenv("HABITS", "metric", 1);
  LoseAndCompare({{"updated 7 1 kill", 1}});
}

TEST_F(ShardedSessionTest, AccumulatedGradientsGoOnExactly) {
  LoseAndCompare({{"backward 5 1 kill", 1}, {"word 9 0 deaf+word 9 3 deaf+updated 9 2 kill", 2}},
                 "accumulation_steps: 2 ");
}

TEST_F(ShardedSessionTest, WithMeansOfParameters) {
  LoseAndCompare({{"backward 5 1 kill", 1}, {"updated 9 2 kill", 2}},
                 "strategy { local_sgd { period: 2 } gradient_group_size: 2 } ");
}

TEST_F(ShardedSessionTest, WithTensorParallelRanks) {
  setenv("HABITS", "mesh=1x2", 1);
  LoseAndCompare({{"forward 3 1 kill", 1},
                  {"backward 7 2 kill", 2},
                  {"word 9 0 deaf+word 9 2 deaf+updated 9 3 kill", 3},
                  {"updated 15 0 kill", 0}});
}

// Of each replica, ranks 0 and 1, and 2 and 3, have the same samples.
TEST_F(ShardedSessionTest, WithTensorParallelRanksAndShards) {
  setenv("HABITS", "mesh=2x2", 1);
  LoseAndCompare({{"backward 3 5 kill", 5}, {"forward 7 2 kill", 2}},
                 "steps: 12 startup_timeout_s: 360 collective_timeout_s: 120 ", /*shards=*/4);
}

// Ranks 0 and 1 take each other's places, so that neither has a state that it can use.
TEST_F(ShardedSessionTest, RanksThatChangeTheirPositionsGetTheStatesOfOthers) {
  RunUndisturbedSession(4, "shards: 2 ");
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(SessionSpec(4, "disturbed", "shards: 2 ", "forward 9 3 wait"));
  WaitForSteps(*daemon, 0, 9);
  daemon->SetMembers({{1, 0, 2, 3}});
  ASSERT_TRUE(daemon->Serve([&] { return daemon->status(0).membership().left_generation() > 0; }))
      << daemon->Log(0);
  EXPECT_TRUE(std::ofstream(absl::StrCat(directory_, "/disturbed/go")).good());
  WaitForSuccess(*daemon, {1, 0, 2, 3});
  EXPECT_TRUE(Whole("disturbed") == Whole("undisturbed"));
}

// Of the only replica one rank moves, or all do; nobody else has their parts.
TEST_F(ShardedSessionTest, AnOnlyReplicaIsHandedOverWithoutACheckpoint) {
  const std::string changes = "shards: 2 steps: 100 ";
  const std::unique_ptr<FakeDaemon> undisturbed = RunUndisturbedSession(2, changes);
  for (const std::vector<int>& moved : {std::vector<int>{1}, std::vector<int>{0, 1}}) {
    SCOPED_TRACE(absl::StrJoin(moved, ","));
    const std::string go = directory_ + "/disturbed/go";
    for (const std::string& file : {Released(), go}) std::remove(file.c_str());
    const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    // As EvenSpec does it.
    const std::string pace = absl::StrCat(
        "allow_chaos: true chaos { rank: -1 kind: SLEEP step: 0 steps: 100 seconds: "
        "0.1 until_file: '",
        Released(), "' } ");
    const int spares = static_cast<int>(moved.size());
    daemon->Launch(SessionSpec(2, "disturbed", changes + pace, "forward 9 0 wait", spares));
    for (int spare = 2; spare < 2 + spares; ++spare) WaitUntilReady(*daemon, spare);
    WaitForSteps(*daemon, 0, 9);
    EXPECT_TRUE(std::ofstream(go).good());
    FakeDaemon::Members members;
    members.trainers = {0, 1};
    members.planned = true;
    int spare = 2;
    for (const int rank : moved) {
      members.trainers[static_cast<size_t>(rank)] = spare++;
      members.hand_over[rank] = rank;
    }
    daemon->SetMembers(members);
    WaitUntilRendezvous(*daemon);
    for (const int leaver : moved) daemon->Stop(leaver);
    WaitForSuccess(*daemon, members.trainers);
    for (const int trainer : members.trainers) {
      EXPECT_EQ(daemon->status(trainer).membership().error(), "") << daemon->Log(trainer);
    }
    ExpectSame(*undisturbed, *daemon, members.trainers, "disturbed");
  }
}

TEST_F(ShardedSessionTest, HalvesOfTwoReplicasMakeOne) {
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(SessionSpec(4, "disturbed", "shards: 2 ", "backward 9 1 kill"));
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3}});
  WaitForSuccess(*daemon, {0, 3});
  for (const int number : {0, 3}) EXPECT_EQ(Losses(*daemon, number).size(), 24U);
}

TEST_F(ShardedSessionTest, GoesOnExactlyFromACheckpoint) {
  const std::unique_ptr<FakeDaemon> undisturbed =
      RunUndisturbedSession(4, absl::StrCat("shards: 2 ", SaveEvery(12)));
  const v1::JobSpec spec = SessionSpec(4, "resumed", "shards: 2 ");
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(spec, /*generation=*/2, Saved(12));
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
  ExpectSame(*undisturbed, *daemon, {0, 1, 2, 3}, "resumed");
  EXPECT_EQ(Losses(*daemon, 0).begin()->first, 13);
}

TEST_F(ShardedSessionTest, SavesWhenTheScriptAsks) {
  setenv("HABITS", "save", 1);
  const std::unique_ptr<FakeDaemon> undisturbed =
      RunUndisturbedSession(4, absl::StrCat("shards: 2 checkpoint { directory: '", directory_,
                                            "/checkpoints' at_end: false } "));
  unsetenv("HABITS");
  const v1::JobSpec spec = SessionSpec(4, "resumed", "shards: 2 ");
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(spec, /*generation=*/2, Saved(7));
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
  ExpectSame(*undisturbed, *daemon, {0, 1, 2, 3}, "resumed");
}

// The checkpoint is that of the last step, so that restoring is all that they do.
TEST_F(ShardedSessionTest, OtherNumbersOfRanksAndShardsHaveTheSameState) {
  RunUndisturbedSession(4, absl::StrCat("shards: 2 steps: 12 ", SaveEvery(12)));
  struct Case {
    int ranks;
    std::string changes;
    std::string habits;
  };
  for (const Case& one : {Case{2, "shards: 2 ", ""}, Case{4, "shards: 1 ", ""},
                          Case{3, "shards: 3 ", ""}, Case{2, "", "whole"}}) {
    SCOPED_TRACE(absl::StrCat(one.ranks, " ranks, ", one.changes, one.habits));
    for (const int steps : {12, 18}) {
      setenv("HABITS", one.habits.c_str(), 1);
      const v1::JobSpec spec =
          SessionSpec(one.ranks, "resumed", absl::StrCat(one.changes, "steps: ", steps, " "));
      const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
      daemon->Launch(spec, /*generation=*/2, Saved(12));
      ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
      for (int rank = 0; rank < one.ranks; ++rank) {
        ASSERT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
        EXPECT_EQ(Losses(*daemon, rank).size(), static_cast<size_t>(steps - 12));
      }
      EXPECT_EQ(Whole("resumed") == Whole("undisturbed"), steps == 12);
    }
  }
}

TEST_F(ShardedSessionTest, OtherMeshesHaveTheSameState) {
  setenv("HABITS", "mesh=2x2", 1);
  RunUndisturbedSession(4, absl::StrCat("shards: 4 steps: 12 ", SaveEvery(12)));
  struct Case {
    int ranks;
    std::string mesh;
  };
  for (const Case& one : {Case{4, "4x1"}, Case{2, "1x2"}, Case{3, "3x1"}, Case{1, "1x1"}}) {
    SCOPED_TRACE(one.mesh);
    setenv("HABITS", absl::StrCat("mesh=", one.mesh).c_str(), 1);
    const v1::JobSpec spec =
        SessionSpec(one.ranks, "resumed", absl::StrCat("shards: ", one.ranks, " steps: 12 "));
    const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(spec, /*generation=*/2, Saved(12));
    ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
    for (int rank = 0; rank < one.ranks; ++rank) {
      ASSERT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    }
    EXPECT_TRUE(Whole("resumed") == Whole("undisturbed"));
  }
}

// The one that keeps the others waiting has entered the fewest collectives (controller/core/
// recovery/hang.h). Its phase is that of the rank of its replica that waits for it.
TEST_F(ShardedSessionTest, ShowsWhichRankOfAReplicaKeepsTheOtherWaiting) {
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(SessionSpec(4, "out", "shards: 2 ", "forward 9 3 wait"));
  WaitForSteps(*daemon, 0, 9);
  const absl::StatusOr<StepRingReader> waits = StepRingReader::Open(daemon->RingPath(2));
  const absl::StatusOr<StepRingReader> hangs = StepRingReader::Open(daemon->RingPath(3));
  ASSERT_TRUE(waits.ok() && hangs.ok()) << waits.status() << " " << hangs.status();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  const auto is_shown = [&] {
    return waits->Live().step == 9 && waits->Live().phase == Phase::kForward &&
           hangs->Live().step == 9 && hangs->Live().phase == Phase::kForward &&
           hangs->Collectives() > 0 && waits->Collectives() > hangs->Collectives();
  };
  bool shown = is_shown();
  for (; !shown && absl::Now() < deadline; shown = is_shown()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(shown) << waits->Collectives() << " " << hangs->Collectives();
  for (int rank = 0; rank < 4; ++rank) daemon->Signal(rank, SIGKILL);
  for (int rank = 0; rank < 4; ++rank) WaitForEnd(*daemon, rank);
}

TEST_F(ShardedSessionTest, AFailureWhenAllLeaveAGenerationIsTold) {
  setenv("HABITS", "stuck", 1);
  const std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "failed", "shards: 2 steps: 1000000 "));
  WaitForSteps(*daemon, 0, 2);
  FakeDaemon::Members members;
  members.trainers = {0, 1};
  members.planned = true;
  daemon->SetMembers(members);
  WaitForEnd(*daemon, 0);
  EXPECT_THAT(daemon->LastWords(0).error().message(), HasSubstr("it cannot leave"))
      << daemon->Log(0);
}

// With more shards the job's file is refused (check_shards_test.cc).
TEST_F(ShardedSessionTest, RefusesAFormatOfGradientsOfOneShard) {
  ExpectRefusal("shards: 1 gradient_format: WIRE_FORMAT_BF16 ", "",
                "gradient_format of the job's file does not go with a sharded model");
}

TEST_F(ShardedSessionTest, RefusesWhatIsNotSharded) {
  ExpectRefusal("shards: 2 ", "whole", "the attached model is not sharded");
}

TEST_F(ShardedSessionTest, RefusesAnotherMesh) {
  ExpectRefusal("shards: 2 ", "own_mesh", "give fully_shard mesh=run.mesh");
}

TEST_F(ShardedSessionTest, RefusesAMeshOfOtherSizes) {
  ExpectRefusal("shards: 2 ", "mesh=2x2", "sizes 2 x 2, and the job's file says shards: 2");
}

TEST_F(ShardedSessionTest, RefusesSchedulersThatLeaveStepsOut) {
  ExpectRefusal("shards: 2 ", "lazy", "StepLR has made 0 steps in step 3");
}

}  // namespace
}  // namespace paceline
