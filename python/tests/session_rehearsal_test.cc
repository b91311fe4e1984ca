// Spares of sessions that rehearse a step before they stand by: what they leave behind, and what
// becomes of the job when they die, fail or are needed meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "python/tests/session_fixture.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kRehearses[] = "rehearses as rank -1 of 1";
constexpr char kRehearsed[] = "this spare has rehearsed a step";

class SessionRehearsalTest : public SessionFixture {
 protected:
  void TearDown() override {
    unsetenv("HABITS");
    unsetenv("DIES");
    SessionFixture::TearDown();
  }

  // `habits`: further ones of the script (session_script.py).
  static void Rehearse(const std::string& habits = "") {
    setenv("HABITS", absl::StrCat("rehearse ", habits).c_str(), /*overwrite=*/1);
  }

  static LivePhase Live(const FakeDaemon& daemon, int number) {
    const absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon.RingPath(number));
    EXPECT_TRUE(ring.ok()) << ring.status();
    return ring.ok() ? ring->Live() : LivePhase();
  }

  // Waits until the trainer has its configuration, and then is in this phase.
  static void WaitForPhase(FakeDaemon& daemon, int number, Phase phase) {
    ASSERT_TRUE(daemon.Serve([&] { return daemon.statuses(number) > 0; })) << daemon.Log(number);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (Live(daemon, number).phase != phase && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    ASSERT_EQ(Live(daemon, number).phase, phase) << daemon.Log(number);
  }
};

TEST_F(SessionRehearsalTest, NothingIsLeftOfItButWhatWasCompiled) {
  Rehearse("compile");
  const auto undisturbed = RunUndisturbedSession(3, "");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "disturbed", "", "backward 10 1 kill", /*spares=*/1));
  WaitUntilReady(*daemon, 3);
  const std::string before = daemon->Log(3);
  EXPECT_THAT(before, HasSubstr(kRehearses));
  EXPECT_THAT(before, HasSubstr(kRehearsed));
  EXPECT_THAT(before, HasSubstr("compiles"));
  EXPECT_EQ(Live(*daemon, 3).phase, Phase::kIdle);
  EXPECT_EQ(Live(*daemon, 3).step, 0U);
  const absl::StatusOr<StepRingReader> ring = StepRingReader::Open(daemon->RingPath(3));
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(ring->Written(), 0U) << "it is no step of the job";
  EXPECT_FALSE(daemon->status(3).has_figures());
  WaitForEnd(*daemon, 1);
  daemon->SetMembers({{0, 3, 2}});
  WaitForSuccess(*daemon, {0, 3, 2});
  ExpectSame(*undisturbed, *daemon, {0, 3, 2}, "disturbed");
  EXPECT_THAT(daemon->Log(3).substr(before.size()), Not(HasSubstr("compiles")));
  for (const int rank : {0, 1, 2}) {
    EXPECT_THAT(daemon->Log(rank), HasSubstr("compiles"));
    EXPECT_THAT(daemon->Log(rank), Not(HasSubstr("rehearse"))) << "it is no spare";
  }
}

TEST_F(SessionRehearsalTest, ASpareTakesOverDirectlyAfterwards) {
  Rehearse();
  DieAndCompare({"forward 0", "backward 7", "updated 14"});
}

TEST_F(SessionRehearsalTest, WhateverTheScriptDoesInItsStepsItMayRehearse) {
  for (const char* habits : {"plain", "group", "draw", "own"}) {
    SCOPED_TRACE(habits);
    Rehearse(habits);
    DieAndCompare({"backward 9"});
  }
}

TEST_F(SessionRehearsalTest, WorkersOfTheLoaderStartAnew) {
  Rehearse();
  setenv("WORKERS", "2", 1);
  DieAndCompare({"backward 9"}, "accumulation_steps: 2 ");
  unsetenv("WORKERS");
}

TEST_F(SessionRehearsalTest, ASpareThatDiesInItLeavesTheJobAlone) {
  Rehearse();
  const auto undisturbed = RunUndisturbedSession(3, "");
  setenv("DIES", "rehearsal", 1);
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "disturbed", "", "backward 11 1 kill", /*spares=*/2));
  unsetenv("DIES");
  ASSERT_TRUE(daemon->Serve([&] { return daemon->ended(3) || daemon->ended(4); }))
      << daemon->Log(3) << daemon->Log(4);
  const int dead = daemon->ended(3) ? 3 : 4;
  const int other = dead == 3 ? 4 : 3;
  EXPECT_EQ(daemon->exit_signal(dead), SIGKILL) << daemon->Log(dead);
  WaitUntilReady(*daemon, other);
  WaitForEnd(*daemon, 1);
  const std::vector<int> trainers = {0, other, 2};
  daemon->SetMembers({trainers});
  WaitForSuccess(*daemon, trainers);
  ExpectSame(*undisturbed, *daemon, trainers, "disturbed");
}

TEST_F(SessionRehearsalTest, AMistakeOfTheScriptEndsTheSpareAlone) {
  Rehearse("stumble");
  const auto undisturbed = RunUndisturbedSession(2, "");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "disturbed", "", /*at=*/"", /*spares=*/1));
  WaitForEnd(*daemon, 2);
  EXPECT_EQ(daemon->exit_code(2), 1);
  EXPECT_EQ(daemon->LastWords(2).error().kind(), v1::FAILURE_ERROR);
  EXPECT_EQ(daemon->LastWords(2).error().message(),
            "in the rehearsal of a spare: ValueError: a mistake in the rehearsal");
  EXPECT_THAT(daemon->Log(2), HasSubstr("in rehearse"));
  EXPECT_EQ(Live(*daemon, 2).phase, Phase::kIdle) << "it has failed in no step of the job";
  WaitForSuccess(*daemon, {0, 1});
  ExpectSame(*undisturbed, *daemon, {0, 1}, "disturbed");
}

TEST_F(SessionRehearsalTest, ASpareThatIsNeededMeanwhileJoinsAtItsEnd) {
  Rehearse("linger");
  const auto undisturbed = RunUndisturbedSession(3, "");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(3, "disturbed", "", "backward 9 1 kill", /*spares=*/1));
  WaitForEnd(*daemon, 1);
  WaitForPhase(*daemon, 3, Phase::kForward);
  EXPECT_EQ(Live(*daemon, 3).step, 0U);
  EXPECT_NE(daemon->status(3).state(), v1::TRAINER_READY);
  daemon->SetMembers({{0, 3, 2}});
  EXPECT_TRUE(std::ofstream(absl::StrCat(directory_, "/disturbed/needed")).good());
  WaitForSuccess(*daemon, {0, 3, 2});
  ExpectSame(*undisturbed, *daemon, {0, 3, 2}, "disturbed");
  EXPECT_THAT(daemon->Log(3), HasSubstr(kRehearsed));
}

TEST_F(SessionRehearsalTest, ASpareThatIsStoppedInItEnds) {
  Rehearse("linger");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "stopped", "", /*at=*/"", /*spares=*/1));
  WaitForPhase(*daemon, 2, Phase::kForward);
  daemon->Stop(2);
  WaitForEnd(*daemon, 2);
  EXPECT_THAT(daemon->Log(2), Not(HasSubstr(kRehearsed)));
  WaitForSuccess(*daemon, {0, 1});
}

}  // namespace
}  // namespace paceline
