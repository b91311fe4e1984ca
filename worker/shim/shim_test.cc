// Runs the real shim with shell scripts as trainers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/trainer_dir.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(20);

// Polls `condition`, since processes tell nobody when they have come so far.
bool Eventually(const std::function<bool()>& condition) {
  const absl::Time give_up = absl::Now() + kDeadline;
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class ShimTest : public ::testing::Test {
 protected:
  ShimTest() {
    dir_ = ::testing::TempDir() + "/shim_test.XXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
    EXPECT_EQ(::mkdir((dir_ + "/log").c_str(), 0700), 0);
  }

  ~ShimTest() override {
    if (shim_ > 0 && !reaped_) {
      ::kill(shim_, SIGUSR1);
      ::waitpid(shim_, nullptr, 0);
    }
  }

  void Start(const std::vector<std::string>& program) {
    auto lock = TrainerLock::Take(dir_);
    ASSERT_TRUE(lock.ok()) << lock.status();
    std::vector<std::string> arguments = {
        "worker/shim/paceline-shim", "--dir", dir_, "--log-dir", dir_ + "/log", "--lock-fd",
        absl::StrCat(lock->fd()),    "--"};
    arguments.insert(arguments.end(), program.begin(), program.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    shim_ = ::fork();
    if (shim_ == 0) {
      ::fcntl(lock->fd(), F_SETFD, 0);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
  }

  void StartScript(const std::string& script) { Start({"/bin/bash", "-c", script}); }

  // The record that the shim leaves.
  ExitRecord Wait() {
    EXPECT_EQ(::waitpid(shim_, nullptr, 0), shim_);
    reaped_ = true;
    const auto record = ReadExitRecord(dir_);
    EXPECT_TRUE(record.ok() && record->has_value()) << record.status();
    return record.ok() && record->has_value() ? **record : ExitRecord();
  }

  std::string Log() { return Contents(absl::StrCat(dir_, "/log/", trainer_dir::kFirstLogSegment)); }

  // Waits for a word in the log that says how far the script is.
  bool Logged(const std::string& word) {
    return Eventually([&] { return Log().find(word) != std::string::npos; });
  }

  pid_t PidIn(const std::string& file) {
    EXPECT_TRUE(Eventually([&] { return !Contents(dir_ + "/" + file).empty(); }));
    return static_cast<pid_t>(std::stoi(Contents(dir_ + "/" + file)));
  }

  std::string dir_;
  pid_t shim_ = -1;
  bool reaped_ = false;
};

bool Gone(pid_t pid) {
  return Eventually([pid] {
    // A zombie that its reaper has not collected yet has ended, too.
    return ::kill(pid, 0) != 0 ||
           Contents(absl::StrCat("/proc/", pid, "/stat")).find(") Z") != std::string::npos;
  });
}

TEST_F(ShimTest, RecordsTheExitCode) {
  StartScript("exit 42");
  const ExitRecord record = Wait();
  EXPECT_EQ(record.exit_code, 42);
  EXPECT_EQ(record.signal, 0);
  EXPECT_EQ(record.start_error, "");
  EXPECT_FALSE(ReadTrainerLock(dir_)->alive);
}

TEST_F(ShimTest, RecordsTheSignal) {
  StartScript("kill -SEGV $$");
  EXPECT_EQ(Wait().signal, SIGSEGV);
}

TEST_F(ShimTest, KillIsNotTakenForLackOfMemory) {
  StartScript("kill -KILL $$");
  const ExitRecord record = Wait();
  EXPECT_EQ(record.signal, SIGKILL);
  EXPECT_FALSE(record.out_of_memory);
}

TEST_F(ShimTest, LogHoldsBothOutputs) {
  StartScript("echo to-out; echo to-err >&2");
  Wait();
  EXPECT_EQ(Log(), "to-out\nto-err\n");
}

TEST_F(ShimTest, LockNamesTheProcessesWhileTheyLive) {
  StartScript("echo $$ > pid; exec sleep 1000");
  ASSERT_TRUE(Eventually([&] { return ReadTrainerLock(dir_)->trainer != 0; }));
  const TrainerProcesses processes = *ReadTrainerLock(dir_);
  EXPECT_TRUE(processes.alive);
  EXPECT_EQ(processes.shim, shim_);
  EXPECT_EQ(processes.trainer, PidIn("pid"));
  EXPECT_EQ(::getpgid(processes.trainer), processes.trainer);
  EXPECT_EQ(::getsid(processes.shim), processes.shim);
}

TEST_F(ShimTest, TermIsPassedOn) {
  StartScript("trap 'echo got-term; exit 7' TERM; echo ready; while :; do read -t 1; done");
  ASSERT_TRUE(Logged("ready"));
  ::kill(shim_, SIGTERM);
  EXPECT_EQ(Wait().exit_code, 7);
  EXPECT_THAT(Log(), HasSubstr("got-term"));
}

TEST_F(ShimTest, UserSignalKillsTheGroup) {
  StartScript("trap '' TERM; sleep 1000 & echo $! > child; echo ready; wait");
  const pid_t child = PidIn("child");
  ASSERT_TRUE(Logged("ready"));
  ::kill(shim_, SIGUSR1);
  EXPECT_EQ(Wait().signal, SIGKILL);
  EXPECT_TRUE(Gone(child));
}

TEST_F(ShimTest, GrandchildrenDoNotOutliveTheTrainer) {
  StartScript(
      "sleep 1000 & echo $! > in_group; setsid sleep 1000 & echo $! > other_group; "
      "while [ \"$(ps -o pgid= -p $(cat other_group) | tr -d ' ')\" = $$ ]; do :; done; exit 3");
  EXPECT_EQ(Wait().exit_code, 3);
  EXPECT_TRUE(Gone(PidIn("in_group")));
  EXPECT_TRUE(Gone(PidIn("other_group")));
}

TEST_F(ShimTest, TrainerDiesWithTheShim) {
  StartScript("echo $$ > pid; exec sleep 1000");
  const pid_t trainer = PidIn("pid");
  ASSERT_TRUE(Eventually([&] { return ReadTrainerLock(dir_)->trainer != 0; }));
  ::kill(shim_, SIGKILL);
  ::waitpid(shim_, nullptr, 0);
  reaped_ = true;
  EXPECT_TRUE(Gone(trainer));
  EXPECT_FALSE(ReadTrainerLock(dir_)->alive);
  EXPECT_FALSE(ReadExitRecord(dir_)->has_value());
}

TEST_F(ShimTest, InheritsNoDescriptors) {
  // Not closing on exec: as a careless library in the daemon would leave it.
  const int leaked = ::open("/dev/zero", O_RDONLY);
  StartScript("ls -l /proc/self/fd > fds; ls -l /proc/$PPID/fd >> fds");
  Wait();
  ::close(leaked);
  EXPECT_THAT(Contents(dir_ + "/fds"), HasSubstr("/dev/null"));
  EXPECT_THAT(Contents(dir_ + "/fds"), ::testing::Not(HasSubstr("/dev/zero")));
}

TEST_F(ShimTest, ProgramThatCannotBeStartedIsNamed) {
  Start({"/nonexistent/trainer"});
  EXPECT_THAT(Wait().start_error,
              ::testing::AllOf(HasSubstr("/nonexistent/trainer"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace paceline
