#include "worker/daemon/trainers/trainer_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include "absl/time/clock.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

constexpr int kDeadlineMs = 20000;

class TrainerProcessTest : public ::testing::Test {
 protected:
  TrainerProcessTest() {
    dir_ = ::testing::TempDir() + "/trainer_process_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
  }

  TrainerProcess::Command Script(const std::string& script) {
    TrainerProcess::Command command;
    command.shim = "worker/shim/paceline-shim";
    command.program = {"/bin/bash", "-c", script};
    command.environment = {"PATH=/usr/bin:/bin"};
    command.trainer_dir = dir_;
    command.own_dir = dir_;
    return command;
  }

  static bool Ended(const TrainerProcess& process) {
    pollfd waited{process.fd(), POLLIN, 0};
    return ::poll(&waited, 1, kDeadlineMs) == 1;
  }

  std::string Log() {
    std::ifstream file(dir_ + "/log/00000000000000000000.log");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  void WaitForLog(const std::string& word) {
    const absl::Time give_up = absl::Now() + absl::Milliseconds(kDeadlineMs);
    while (Log().find(word) == std::string::npos && absl::Now() < give_up) ::poll(nullptr, 0, 2);
  }

  std::string dir_;
};

TEST_F(TrainerProcessTest, TellsWhenItHasEnded) {
  const auto process = TrainerProcess::Start(Script("exit 5"));
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(Ended(*process));
  process->Reap();
  EXPECT_EQ((*ReadExitRecord(dir_))->exit_code, 5);
  EXPECT_NE(::kill(process->shim(), 0), 0);
}

TEST_F(TrainerProcessTest, HasOnlyTheGivenEnvironment) {
  ::setenv("PACELINE_TEST_SECRET", "1", 1);
  const auto process = TrainerProcess::Start(Script("env"));
  ASSERT_TRUE(Ended(*process));
  EXPECT_THAT(Log(), ::testing::Not(::testing::HasSubstr("SECRET")));
  EXPECT_THAT(Log(), ::testing::HasSubstr("PATH=/usr/bin:/bin"));
}

TEST_F(TrainerProcessTest, HasDefaultSignals) {
  ::signal(SIGPIPE, SIG_IGN);
  const auto process = TrainerProcess::Start(Script("kill -PIPE $$; exit 1"));
  ASSERT_TRUE(Ended(*process));
  EXPECT_EQ((*ReadExitRecord(dir_))->signal, SIGPIPE);
}

TEST_F(TrainerProcessTest, TerminateAndKillReachTheTrainer) {
  const auto process = TrainerProcess::Start(
      Script("trap 'echo asked' TERM; echo ready; while :; do read -t 1; done"));
  WaitForLog("ready");
  process->Terminate();
  WaitForLog("asked");
  EXPECT_TRUE(ReadTrainerLock(dir_)->alive);
  process->Kill();
  ASSERT_TRUE(Ended(*process));
  EXPECT_EQ((*ReadExitRecord(dir_))->signal, SIGKILL);
}

TEST_F(TrainerProcessTest, IsAdoptedWhileItLives) {
  auto process = TrainerProcess::Start(Script("echo ready; exec sleep 1000"));
  const pid_t shim = process->shim();
  WaitForLog("ready");
  absl::StatusOr<std::optional<TrainerProcess>> adopted = std::nullopt;
  do {
    adopted = TrainerProcess::Adopt(dir_);
  } while (absl::IsUnavailable(adopted.status()));
  ASSERT_TRUE(adopted.ok() && adopted->has_value()) << adopted.status();
  EXPECT_EQ((*adopted)->shim(), shim);
  (*adopted)->Kill();
  ASSERT_TRUE(Ended(**adopted));
  process->Reap();
  adopted = TrainerProcess::Adopt(dir_);
  ASSERT_TRUE(adopted.ok());
  EXPECT_FALSE(adopted->has_value());
}

TEST_F(TrainerProcessTest, RunningTrainerIsNotStartedTwice) {
  const auto process = TrainerProcess::Start(Script("exec sleep 1000"));
  ASSERT_TRUE(process.ok());
  EXPECT_FALSE(TrainerProcess::Start(Script("exit 0")).ok());
  process->Kill();
  EXPECT_TRUE(Ended(*process));
}

TEST_F(TrainerProcessTest, IsToldFromOtherProcesses) {
  const auto process = TrainerProcess::Start(Script("sleep 1000 & echo $! > child; wait"));
  ASSERT_TRUE(process.ok());
  while (ReadTrainerLock(dir_)->trainer == 0) ::poll(nullptr, 0, 2);
  const pid_t trainer = ReadTrainerLock(dir_)->trainer;
  EXPECT_TRUE(process->IsTrainer(trainer, dir_));
  EXPECT_TRUE(process->IsTrainer(trainer, "/nonexistent")) << "before its id is on record";
  for (const pid_t other : {::getpid(), process->shim(), pid_t{1}, pid_t{0}, pid_t{999999999}}) {
    EXPECT_FALSE(process->IsTrainer(other, dir_)) << other;
  }
  pid_t child = 0;
  while (!(std::ifstream(dir_ + "/child") >> child)) ::poll(nullptr, 0, 2);
  EXPECT_FALSE(process->IsTrainer(child, dir_)) << "what it starts is somebody else";
  EXPECT_TRUE(process->HasStarted(child));
  EXPECT_FALSE(process->HasStarted(::getpid()));
  process->Kill();
  EXPECT_TRUE(Ended(*process));
}

TEST_F(TrainerProcessTest, ConfinementAndPathsReachTheTrainer) {
  TrainerProcess::Command command = Script("ulimit -n; ulimit -Hc");
  command.confinement.limit_nofile = 77;
  command.confinement.limit_core = 0;
  command.roots = {"/nonexistent", dir_};
  command.paths = {{"data.train", dir_ + "/a=b"}};
  const auto process = TrainerProcess::Start(command);
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(Ended(*process));
  EXPECT_EQ((*ReadExitRecord(dir_))->start_error, "");
  EXPECT_EQ(Log(), "77\n0\n");
}

TEST_F(TrainerProcessTest, PathOutsideOfTheRootsIsOnRecord) {
  TrainerProcess::Command command = Script("echo ran");
  command.roots = {dir_};
  command.paths = {{"init_from", "/etc/passwd"}};
  const auto process = TrainerProcess::Start(command);
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(Ended(*process));
  EXPECT_TRUE((*ReadExitRecord(dir_))->is_input_error);
  EXPECT_THAT((*ReadExitRecord(dir_))->start_error, ::testing::HasSubstr("init_from"));
  EXPECT_EQ(Log(), "");
}

TEST_F(TrainerProcessTest, MissingShimIsNamed) {
  TrainerProcess::Command command = Script("exit 0");
  command.shim = "/nonexistent/shim";
  const absl::Status status = TrainerProcess::Start(command).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/nonexistent/shim"));
  EXPECT_FALSE(ReadTrainerLock(dir_)->alive);
}

// ---- Interpreters that stand by.

class StandbyProcessTest : public TrainerProcessTest {
 protected:
  TrainerProcess::Command Standby(const std::string& script) {
    TrainerProcess::Command command = Script(script);
    command.working_directory = dir_;
    command.environment_file = dir_ + "/environment";
    command.log_segment_bytes = 1 << 20;
    std::ofstream(command.environment_file) << "A=1" << '\0' << "PATH=/usr/bin:/bin" << '\0';
    return command;
  }

  static absl::Status WaitForNews(StandbyProcess& standby) {
    const absl::Time give_up = absl::Now() + absl::Milliseconds(kDeadlineMs);
    while (absl::Now() < give_up) {
      if (const auto news = standby.News(); news.has_value()) return *news;
      ::poll(nullptr, 0, 2);
    }
    return absl::DeadlineExceededError("no news");
  }
};

TEST_F(StandbyProcessTest, BecomesTheTrainerThatItIsToldToBe) {
  const TrainerProcess::Command command =
      Standby("echo early $A $PACELINE_STANDBY; printf r >&3; echo $(tr '\\0' ' ' <&3); exit 6");
  auto standby = StandbyProcess::Start(command, "/the/modules");
  ASSERT_TRUE(standby.ok()) << standby.status();
  EXPECT_TRUE(WaitForNews(*standby).ok());
  EXPECT_EQ(Log(), "") << "it is nobody's yet";
  TrainerProcess::Command becomes = command;
  becomes.environment_file = dir_ + "/other";
  std::ofstream(becomes.environment_file) << "B=2" << '\0' << "C=3" << '\0';
  const auto process = standby->Become(becomes);
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(Ended(*process));
  EXPECT_TRUE(process->Reap());
  EXPECT_EQ((*ReadExitRecord(dir_))->exit_code, 6);
  EXPECT_EQ(Log(), "early 1 /the/modules\nB=2 C=3\n");
}

TEST_F(StandbyProcessTest, SaysWhyItDoesNotStandBy) {
  auto refused = StandbyProcess::Start(Standby("printf 'nits imports open a GPU' >&3"), "/m");
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(WaitForNews(*refused).message(), "its imports open a GPU");
  TrainerProcess::Command missing = Standby("");
  missing.program = {"no-such-python"};
  auto unstarted = StandbyProcess::Start(missing, "/m");
  ASSERT_TRUE(unstarted.ok()) << unstarted.status();
  EXPECT_THAT(WaitForNews(*unstarted).message(),
              ::testing::HasSubstr("cannot start no-such-python: No such file"));
  auto dead = StandbyProcess::Start(Standby("kill -9 $$"), "/m");
  ASSERT_TRUE(dead.ok()) << dead.status();
  EXPECT_EQ(WaitForNews(*dead).message(), "it has ended");
}

TEST_F(StandbyProcessTest, NothingIsLeftOfOneThatIsNotNeeded) {
  auto standby = StandbyProcess::Start(
      Standby("setsid sleep 1000 & echo $! > " + dir_ + "/pid; printf r >&3; cat <&3"), "/m");
  ASSERT_TRUE(standby.ok()) << standby.status();
  EXPECT_TRUE(WaitForNews(*standby).ok());
  int pid = 0;
  std::ifstream(dir_ + "/pid") >> pid;
  ASSERT_GT(pid, 0);
  const TrainerProcess ending = std::move(*standby).End();
  ASSERT_TRUE(Ended(ending));
  EXPECT_TRUE(ending.Reap());
  EXPECT_NE(::kill(pid, 0), 0);
  EXPECT_FALSE((*ReadExitRecord(dir_)).has_value());
}

}  // namespace
}  // namespace paceline
