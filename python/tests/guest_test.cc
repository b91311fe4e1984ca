// What scripts bring along goes on beside the engine: connections, threads, workers, children,
// signals' handlers, a debugger (guest_script.py, whose classes the tests name).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "python/tests/session_fixture.h"
#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {
namespace {

using testing::HasSubstr;

class GuestTest : public SessionFixture {
 protected:
  // Each guest has a process of its own from the start.
  GuestTest() {
    server_ = "";
    variables_.clear();
  }

  // `guest`: as for the script.
  void SetUpGuest(const std::string& guest) {
    setenv("SCRIPT", "python/tests/guest_script.py", /*overwrite=*/1);
    setenv("GUEST", guest.c_str(), 1);
  }

  void TearDown() override {
    for (const char* name : {"SCRIPT", "GUEST", "DIES", "WORKERS", "OPENBLAS_NUM_THREADS"}) {
      unsetenv(name);
    }
    SessionFixture::TearDown();
  }

  // A job of two ranks in which nothing happens but what the guest does.
  std::unique_ptr<FakeDaemon> RunGuest(const std::string& guest) {
    SetUpGuest(guest);
    auto daemon = RunJob(SessionSpec(2, "guests", ""));
    for (const int rank : {0, 1}) {
      EXPECT_THAT(daemon->Log(rank), HasSubstr(guest + " is as it was"));
    }
    return daemon;
  }

  // Rank 1 of two is killed in step 11, and a spare takes its place.
  std::unique_ptr<FakeDaemon> LoseARank() {
    setenv("DIES", "11 1", 1);
    auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(2, "guests", "", "", /*spares=*/1));
    WaitUntilReady(*daemon, 2);
    WaitForEnd(*daemon, 1);
    EXPECT_EQ(daemon->exit_signal(1), SIGKILL) << daemon->Log(1);
    daemon->SetMembers({{0, 2}});
    WaitForSuccess(*daemon, {0, 2});
    return daemon;
  }
};

TEST_F(GuestTest, ConnectionsAndThreadsOutliveALostRank) {
  SetUpGuest("Connections");
  const auto daemon = LoseARank();
  for (const int trainer : {0, 2}) {
    EXPECT_THAT(daemon->Log(trainer), HasSubstr("Connections is as it was"));
  }
}

TEST_F(GuestTest, SpawnedWorkersImportTheScriptAnew) {
  SetUpGuest("Guest");
  const auto undisturbed = RunUndisturbedSession(2, "");
  setenv("WORKERS", "1", 1);
  const auto daemon = LoseARank();
  ExpectSame(*undisturbed, *daemon, {0, 2}, "guests");
}

TEST_F(GuestTest, ThreadsMasksAndMemoryStayAsTheyWere) {
  setenv("OPENBLAS_NUM_THREADS", "2", 1);
  RunGuest("Settings");
}

TEST_F(GuestTest, FaultsAreReported) { RunGuest("Faults"); }

TEST_F(GuestTest, ForkedChildrenAreNoRanks) { RunGuest("Children"); }

TEST_F(GuestTest, ADebuggerStopsInAStep) {
  const auto daemon = RunGuest("Debugger");
  for (const int rank : {0, 1}) {
    EXPECT_THAT(daemon->Log(rank), HasSubstr("('stopped in', 4)"));
    EXPECT_THAT(daemon->Log(rank), HasSubstr("('passed', 8)"));
  }
}

TEST_F(GuestTest, HandlersOfTheScriptGetTheirSignals) {
  const auto daemon = RunGuest("Handlers");
  EXPECT_THAT(daemon->Log(0), HasSubstr("at exit SIGTERM is told to early"));
  EXPECT_THAT(daemon->Log(1), HasSubstr("at exit SIGTERM is told to late"));
}

TEST_F(GuestTest, BeforeTheFirstStepSigtermIsTheScripts) {
  SetUpGuest("StoppedEarly");
  const auto daemon = RunJob(SessionSpec(2, "guests", ""));
  for (const int rank : {0, 1}) {
    EXPECT_THAT(daemon->Log(rank), HasSubstr("SIGTERM is told to early"));
  }
}

TEST_F(GuestTest, AProcessIsOneRank) { RunGuest("Twice"); }

TEST_F(GuestTest, AnInterruptEndsTheJobByItsName) {
  SetUpGuest("Interrupted");
  const auto daemon = MakeDaemon();
  daemon->Launch(SessionSpec(2, "guests", ""));
  WaitForEnd(*daemon, 1);
  EXPECT_EQ(daemon->exit_signal(1), SIGINT) << daemon->Log(1);
  EXPECT_EQ(daemon->LastWords(1).error().kind(), v1::FAILURE_ERROR);
  EXPECT_EQ(daemon->LastWords(1).error().message(), "KeyboardInterrupt");
}

}  // namespace
}  // namespace paceline
