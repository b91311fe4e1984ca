// A user's script as the ranks of a job, in real processes: what becomes of it when ranks are lost,
// restarted, and when the script itself fails.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {
namespace {

using testing::HasSubstr;

class SessionTest : public RecoveryTest {
 protected:
  SessionTest() {
    trainer_ = "python/tests/session_rank.sh";
    server_ = "";
  }

  // Of the script, which writes its state below `name`. `at`: as for the script.
  v1::JobSpec SessionSpec(int ranks, const std::string& name, const std::string& changes,
                          const std::string& at = "", int spares = 0) const {
    std::filesystem::create_directories(absl::StrCat(directory_, "/", name));
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("name: 'test' ranks: ", ranks,
                     " command: 'session_script.py' working_directory: '/' session: true "
                     "batch_per_rank: 4 steps: 24 log_every: 1 seed: 3 recovery { max_failures: "
                     "10 spares: ",
                     spares, " } collective_timeout_s: 30 startup_timeout_s: 90"),
        &spec));
    v1::JobSpec more;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(changes, &more)) << changes;
    spec.MergeFrom(more);
    // For the script, which is started in this process's environment.
    setenv("OUT", absl::StrCat(directory_, "/", name).c_str(), /*overwrite=*/1);
    setenv("AT", at.c_str(), 1);
    return spec;
  }

  std::unique_ptr<FakeDaemon> RunUndisturbedSession(int ranks, const std::string& changes) {
    return RunJob(SessionSpec(ranks, "undisturbed", changes));
  }

  // Rank 1 of three dies at this moment (phase and step); a spare takes its place, and the job
  // computes what the undisturbed one does.
  void DieAndCompare(const FakeDaemon& undisturbed, const std::string& moment,
                     const std::string& changes = "") {
    SCOPED_TRACE(moment);
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(3, "disturbed", changes, absl::StrCat(moment, " 1 kill"), 1));
    WaitUntilReady(*daemon, 3);
    WaitForEnd(*daemon, 1);
    EXPECT_EQ(daemon->exit_signal(1), SIGKILL) << daemon->Log(1);
    daemon->SetMembers({{0, 3, 2}});
    WaitForSuccess(*daemon, {0, 3, 2});
    ExpectSame(undisturbed, *daemon, {0, 3, 2}, "disturbed");
  }
};

TEST_F(SessionTest, TrainsAndReportsLikeATrainer) {
  const auto daemon = RunUndisturbedSession(2, "evaluation { every: 10 } ");
  EXPECT_EQ(daemon->status(0).figures().step(), 24);
  EXPECT_GT(daemon->status(0).figures().samples_per_s(), 0);
  EXPECT_EQ(daemon->status(0).evaluation().step(), 24);
  EXPECT_EQ(daemon->status(0).state(), v1::TRAINER_FINISHED);
  EXPECT_EQ(Losses(*daemon, 0).size(), 24U);
  EXPECT_THAT(daemon->Log(0), HasSubstr("the script has ended"));
}

TEST_F(SessionTest, ASpareTakesOverInAnyPhaseOfAStep) {
  const auto undisturbed = RunUndisturbedSession(3, "");
  for (const char* moment : {"begin 11", "forward 0", "forward 11", "backward 11",
                             "before_update 11", "updated 11", "updated 22", "end 11"}) {
    DieAndCompare(*undisturbed, moment);
  }
}

TEST_F(SessionTest, ASpareTakesOverInAnEvaluation) {
  const std::string evaluated = "evaluation { every: 6 } ";
  const auto undisturbed = RunUndisturbedSession(3, evaluated);
  DieAndCompare(*undisturbed, "evaluation 0", evaluated);
}

TEST_F(SessionTest, PlainCallsOfTorchAreTheSteps) {
  setenv("PLAIN", "1", 1);
  const auto undisturbed = RunUndisturbedSession(3, "");
  for (const char* moment : {"backward 11", "updated 11"}) DieAndCompare(*undisturbed, moment);
  unsetenv("PLAIN");
}

TEST_F(SessionTest, LeavesAloneWhatIsTheScripts) {
  setenv("WORKERS", "2", 1);
  const auto undisturbed = RunUndisturbedSession(3, "");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "disturbed", "", "backward 11 1 kill", 1));
  WaitUntilReady(*daemon, 3);
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3, 2}});
  WaitForSuccess(*daemon, {0, 3, 2});
  ExpectSame(*undisturbed, *daemon, {0, 3, 2}, "disturbed");
  for (const int number : {0, 2, 3}) {
    EXPECT_THAT(daemon->Log(number), HasSubstr("the connection answers ping"));
  }
  unsetenv("WORKERS");
}

TEST_F(SessionTest, GoesOnExactlyFromACheckpoint) {
  const std::string saves =
      absl::StrCat("checkpoint { directory: '", directory_,
                   "/checkpoints' every_steps: 1 at_end: false when_busy: WHEN_BUSY_WAIT } ");
  struct Case {
    const char* strategy;
    int64_t step;  // Where all ranks were equal.
  };
  for (const auto& [strategy, step] :
       {Case{"", 12},
        Case{"strategy { hsgd { ladder { period: 3 size: 3 } } } evaluation { every: 6 } ", 13}}) {
    SCOPED_TRACE(strategy);
    std::filesystem::remove_all(directory_ + "/checkpoints");
    const auto undisturbed = RunUndisturbedSession(3, absl::StrCat(saves, strategy));
    const v1::JobSpec spec = SessionSpec(3, "resumed", strategy);
    const auto daemon = MakeDaemon();
    daemon->Launch(spec, /*generation=*/2,
                   absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/",
                                CheckpointName({step, 1})));
    ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
    ExpectSame(*undisturbed, *daemon, {0, 1, 2}, "resumed");
    EXPECT_EQ(Losses(*daemon, 0).begin()->first, step + 1);
  }
}

TEST_F(SessionTest, GoesOnWithFewerRanks) {
  const std::string saves =
      absl::StrCat("checkpoint { directory: '", directory_, "/checkpoints' every_steps: 12 } ");
  RunUndisturbedSession(3, saves);
  const auto daemon = MakeDaemon();
  daemon->Launch(
      SessionSpec(2, "resumed", ""), /*generation=*/2,
      absl::StrCat(directory_, "/checkpoints/", FakeDaemon::JobId(), "/", CheckpointName({12, 1})));
  ASSERT_TRUE(daemon->Serve()) << daemon->Log(0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    EXPECT_EQ(Losses(*daemon, rank).size(), 12U);
  }
}

TEST_F(SessionTest, AMistakeOfTheScriptIsItsOwn) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "failed", "", "forward 5 1 raise"));
  WaitForEnd(*daemon, 1);
  EXPECT_EQ(daemon->exit_code(1), 1);
  EXPECT_EQ(daemon->LastWords(1).error().kind(), v1::FAILURE_ERROR);
  EXPECT_EQ(daemon->LastWords(1).error().message(), "ValueError: a mistake of the script");
  EXPECT_THAT(daemon->Log(1), HasSubstr("in die"));
}

TEST_F(SessionTest, AScriptThatLeavesIsNotFinished) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "failed", "", "end 5 1 exit"));
  WaitForEnd(*daemon, 1);
  EXPECT_EQ(daemon->LastWords(1).error().message(), "the script ended before its training did");
}

TEST_F(SessionTest, StopsWhenAsked) {
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "stopped", "steps: 1000000 "));
  WaitForSteps(*daemon, 0, 5);
  for (const int rank : {0, 1}) daemon->Stop(rank);
  for (const int rank : {0, 1}) {
    WaitForEnd(*daemon, rank);
    EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    EXPECT_THAT(daemon->Log(rank), HasSubstr("the script has ended"));
  }
}

}  // namespace
}  // namespace paceline
