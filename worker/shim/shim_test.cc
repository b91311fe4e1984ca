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

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/shim/confinement.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/testing/other_users.h"
#include "worker/shim/trainer_dir.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
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
    own_dir_ = dir_;
  }

  // As the daemon does for trainers of another user: they have a folder in one that is ours.
  void RunAsNobody() {
    dir_ = "/tmp/shim_test.XXXXXX";  // Others may enter it, unlike the tests' own.
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    own_dir_ = dir_ + "/own";
    ASSERT_EQ(::chmod(dir_.c_str(), 0711), 0);
    ASSERT_EQ(::mkdir(own_dir_.c_str(), 0700), 0);
    ASSERT_EQ(::chown(own_dir_.c_str(), kNobody, kNobody), 0);
    confinement_.user = UserIds{kNobody, kNobody, {kNobody, 12345}};
  }

  ~ShimTest() override {
    if (shim_ > 0 && !reaped_) {
      ::kill(shim_, SIGUSR1);
      ::waitpid(shim_, nullptr, 0);
    }
    if (own_dir_ != dir_) std::filesystem::remove_all(dir_);
  }

  void Start(const std::vector<std::string>& program) {
    auto lock = TrainerLock::Take(dir_);
    ASSERT_TRUE(lock.ok()) << lock.status();
    std::vector<std::string> arguments = {
        "worker/shim/paceline-shim", "--dir", dir_, "--own-dir", own_dir_, "--lock-fd",
        absl::StrCat(lock->fd())};
    const std::vector<std::string> confined = ConfinementFlags(confinement_);
    arguments.insert(arguments.end(), confined.begin(), confined.end());
    arguments.insert(arguments.end(), more_flags_.begin(), more_flags_.end());
    arguments.emplace_back("--");
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

  std::string Log() {
    return Contents(absl::StrCat(own_dir_, "/log/", trainer_dir::kFirstLogSegment));
  }

  // Waits for a word in the log that says how far the script is.
  bool Logged(const std::string& word) {
    return Eventually([&] { return Log().find(word) != std::string::npos; });
  }

  pid_t PidIn(const std::string& file) {
    EXPECT_TRUE(Eventually([&] { return !Contents(own_dir_ + "/" + file).empty(); }));
    return static_cast<pid_t>(std::stoi(Contents(own_dir_ + "/" + file)));
  }

  std::string dir_;
  std::string own_dir_;
  Confinement confinement_;
  std::vector<std::string> more_flags_;
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

TEST_F(ShimTest, TrainerHasItsOutputsAndNoOtherDescriptor) {
  const int leaked = ::open("/dev/zero", O_RDONLY);
  // The fourth is that by which ls looks at the folder.
  StartScript("exec ls /proc/self/fd");
  Wait();
  ::close(leaked);
  EXPECT_EQ(Log(), "0\n1\n2\n3\n");
}

TEST_F(ShimTest, ProgramThatCannotBeStartedIsNamed) {
  Start({"/nonexistent/trainer"});
  const ExitRecord record = Wait();
  EXPECT_THAT(record.start_error,
              AllOf(HasSubstr("/nonexistent/trainer"), HasSubstr("No such file")));
  EXPECT_FALSE(record.is_input_error);
  EXPECT_EQ(record.exit_code, 0) << "it has never run";
}

TEST_F(ShimTest, ProgramsWithMorePrivilegesGiveNone) {
  StartScript("exec cat /proc/self/status");
  Wait();
  EXPECT_THAT(Log(), HasSubstr("NoNewPrivs:\t1\n"));
}

TEST_F(ShimTest, LimitsAreTheTrainers) {
  confinement_.limit_nofile = 123;
  confinement_.limit_core = 0;
  confinement_.limit_memory = uint64_t{3} << 30;
  confinement_.limit_processes = 4567;
  StartScript("exec cat /proc/self/limits");
  Wait();
  EXPECT_THAT(Log(), AllOf(ContainsRegex("Max open files +123 +123 "),
                           ContainsRegex("Max core file size +0 +0 "),
                           ContainsRegex("Max data size +3221225472 +3221225472 "),
                           ContainsRegex("Max processes +4567 +4567 ")));
}

TEST_F(ShimTest, TrainerThatNeedsMoreMemoryThanItMayHaveDoesNotGetIt) {
  confinement_.limit_memory = 64 << 20;
  StartScript("head -c 100000000 /dev/zero | tail -c 90000000 | wc -c");
  Wait();
  EXPECT_THAT(Log(), HasSubstr("memory exhausted"));
}

TEST_F(ShimTest, TrainerIsAnotherUserWithoutAnyPrivilege) {
  PACELINE_NEEDS_OTHER_USERS();
  RunAsNobody();
  StartScript("cat /proc/self/status; touch made; ls .. 2>&1; touch ../forged");
  EXPECT_NE(Wait().exit_code, 0) << "it can write where the shim's records lie";
  EXPECT_THAT(Log(), AllOf(HasSubstr("Uid:\t65534\t65534\t65534\t65534\n"),
                           HasSubstr("Gid:\t65534\t65534\t65534\t65534\n"),
                           HasSubstr("Groups:\t12345 65534 \n"), HasSubstr("NoNewPrivs:\t1\n")));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    EXPECT_THAT(Log(), HasSubstr(absl::StrCat(set, ":\t0000000000000000\n")));
  }
  struct stat made;
  ASSERT_EQ(::stat((own_dir_ + "/made").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, kNobody);
}

TEST_F(ShimTest, TrainerOfAnotherUserDiesWithTheShim) {
  PACELINE_NEEDS_OTHER_USERS();
  RunAsNobody();
  StartScript("echo $$ > pid; exec sleep 1000");
  const pid_t trainer = PidIn("pid");
  ASSERT_TRUE(Eventually([&] { return ReadTrainerLock(dir_)->trainer != 0; }));
  ::kill(shim_, SIGKILL);
  ::waitpid(shim_, nullptr, 0);
  reaped_ = true;
  EXPECT_TRUE(Gone(trainer));
}

TEST_F(ShimTest, LinkInPlaceOfTheLogIsFollowedAsTheTrainersUserOnly) {
  PACELINE_NEEDS_OTHER_USERS();
  RunAsNobody();
  const std::string secret = dir_ + "/secret";
  std::ofstream(secret) << "x";
  ASSERT_EQ(::mkdir((own_dir_ + "/log").c_str(), 0755), 0);
  ASSERT_EQ(::symlink(secret.c_str(),
                      absl::StrCat(own_dir_, "/log/", trainer_dir::kFirstLogSegment).c_str()),
            0);
  StartScript("echo overwritten");
  EXPECT_THAT(Wait().start_error, HasSubstr("Permission denied"));
  EXPECT_EQ(Contents(secret), "x");
}

TEST_F(ShimTest, PathOutsideOfTheRootsIsInputThatIsRefused) {
  more_flags_ = {"--allowed-root", dir_, "--path", "data.train=/etc/passwd"};
  StartScript("echo ran");
  const ExitRecord record = Wait();
  EXPECT_TRUE(record.is_input_error);
  EXPECT_THAT(record.start_error, HasSubstr("data.train is /etc/passwd; jobs may name paths in"));
  EXPECT_EQ(Log(), "");
}

TEST_F(ShimTest, PathInARootIsFine) {
  more_flags_ = {"--allowed-root", "/nonexistent",
                 "--allowed-root", dir_,
                 "--path",         "checkpoint.directory=" + dir_ + "/new=1/c"};
  StartScript("echo ran");
  EXPECT_EQ(Wait().start_error, "");
  EXPECT_EQ(Log(), "ran\n");
}

}  // namespace
}  // namespace paceline
