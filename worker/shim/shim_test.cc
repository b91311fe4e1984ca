// Runs the real shim with shell scripts as trainers.
#include "worker/shim/testing/shim_test.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/shim/exit_record.h"
#include "worker/shim/log_pump.h"
#include "worker/shim/testing/other_users.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  // Without close-on-exec, as a careless library in the daemon might leave it.
  const int leaked = ::open("/dev/zero", O_RDONLY);
  StartScript("ls -l /proc/self/fd > fds; ls -l /proc/$PPID/fd >> fds");
  Wait();
  ::close(leaked);
  EXPECT_THAT(Contents(dir_ + "/fds"), HasSubstr("/dev/null"));
  EXPECT_THAT(Contents(dir_ + "/fds"), ::testing::Not(HasSubstr("/dev/zero")));
}

TEST_F(ShimTest, TrainerHasItsOutputsAndNoOtherDescriptor) {
  const int leaked = ::open("/dev/zero", O_RDONLY);
  // The fourth descriptor is the one with which ls reads the folder.
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

// A program of the job's own.
class CommandShimTest : public ShimTest {
 protected:
  void StartCommand(const std::vector<std::string>& program, int64_t segment_bytes = 1 << 20) {
    SetVariable("PATH=" + path_);
    std::ofstream(dir_ + "/environment") << environment_;
    more_flags_ = {"--working-directory", working_directory_,    "--environment",
                   dir_ + "/environment", "--log-segment-bytes", absl::StrCat(segment_bytes)};
    if (standby_fd_ >= 0) {
      more_flags_.insert(more_flags_.end(), {"--standby-fd", absl::StrCat(standby_fd_),
                                             "--standby-modules", dir_ + "/modules"});
    }
    Start(program);
  }
  void SetVariable(const std::string& entry) { environment_.append(entry).push_back('\0'); }

  // The log, from segments in the order of their names; each name must be the size of those before.
  std::string WholeLog() {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(own_dir_ + "/log")) {
      names.push_back(file.path().filename());
    }
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) {
      EXPECT_EQ(std::stoull(name), text.size()) << name;
      text += Contents(own_dir_ + "/log/" + name);
    }
    segments_ = names.size();
    return text;
  }

  std::string working_directory_ = "/";
  std::string path_ = "/usr/bin:/bin";
  std::string environment_;
  size_t segments_ = 0;
  int standby_fd_ = -1;  // Not -1: the program stands by.
};

TEST_F(CommandShimTest, OutputOfTheWholeTreeIsInSegments) {
  StartCommand({"bash", "-c", "echo one; bash -c 'echo two >&2'; seq 1 1000; printf end"}, 100);
  EXPECT_EQ(Wait().exit_code, 0);
  std::string expected = "one\ntwo\n";
  for (int i = 1; i <= 1000; ++i) absl::StrAppend(&expected, i, "\n");
  EXPECT_EQ(WholeLog(), expected + "end");
}

TEST_F(CommandShimTest, ALongOutputIsCutIntoSegmentsAndNothingIsLost) {
  StartCommand({"bash", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"}, 100'000);
  EXPECT_EQ(Wait().exit_code, 0);
  EXPECT_EQ(WholeLog(), std::string(3'000'000, 'x'));
  EXPECT_GT(segments_, 10u);
}

TEST_F(CommandShimTest, WhatOutlivesTheCommandIsKilledAndItsOutputIsThere) {
  // The background program writes before the command ends, and would hold the pipe for ten minutes.
  StartCommand({"bash", "-c",
                "coproc setsid bash -c 'echo left >&2; echo; exec sleep 600'; "
                "read -u ${COPROC[0]}; exit 3"});
  EXPECT_EQ(Wait().exit_code, 3);
  EXPECT_EQ(WholeLog(), "left\n");
}

TEST_F(CommandShimTest, TheProgramOfAWrapperThatAStopEndsHasTheGrace) {
  // Two wrappers that SIGTERM ends. They are not last commands: bash would exec those.
  const std::string program =
      "trap 'echo saved; exit 0' TERM; echo ready; while :; do read -t 1 <> none; done";
  std::ofstream(dir_ + "/program") << "mkfifo none; " << program;
  working_directory_ = dir_;
  StartCommand({"bash", "-c", "bash -c 'bash program; true'; true"});
  ASSERT_TRUE(Logged("ready"));
  ::kill(shim_, SIGTERM);
  EXPECT_EQ(Wait().signal, SIGTERM);
  EXPECT_EQ(WholeLog(), "ready\nsaved\n");
}

TEST_F(CommandShimTest, TheProgramOfAWrapperThatIgnoresAStopIsKilledWithTheGroup) {
  working_directory_ = dir_;
  StartCommand({"bash", "-c",
                "(trap 'echo asked >&2' TERM; mkfifo none; echo $BASHPID > child; "
                "while :; do read -t 1 <> none; done); true"});
  const pid_t child = PidIn("child");
  ::kill(shim_, SIGTERM);
  ASSERT_TRUE(Logged("asked"));
  EXPECT_EQ(::kill(child, 0), 0);
  ::kill(shim_, SIGUSR1);
  EXPECT_EQ(Wait().signal, SIGTERM);
  EXPECT_TRUE(Gone(child));
}

TEST_F(CommandShimTest, AnInterpreterThatStandsByIsTheOtherUserToo) {
  PACELINE_NEEDS_OTHER_USERS();
  RunAsNobody();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  standby_fd_ = ends[1];
  StartCommand({"bash", "-c", "echo $(id -u) $$ >&3; read -u 3"});
  ::close(ends[1]);
  char words[64] = {};
  ASSERT_GT(::recv(ends[0], words, sizeof(words) - 1, 0), 0);
  EXPECT_THAT(words, ::testing::StartsWith(absl::StrCat(kNobody, " ")));
  // When it is not needed, all ends and leaves nothing behind.
  ::close(ends[0]);
  int status = -1;
  EXPECT_EQ(::waitpid(shim_, &status, 0), shim_);
  reaped_ = true;
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Gone(std::stoi(std::string(words).substr(std::strlen("65534 ")))));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/exit"));
}

TEST_F(CommandShimTest, HasTheVariablesOfTheFileAlone) {
  ::setenv("OF_THE_SHIM", "1", 1);
  SetVariable("GIVEN=a b\nc");
  StartCommand({"bash", "-c", "echo \"$GIVEN\" \"${OF_THE_SHIM-none}\" \"$PWD\""});
  EXPECT_EQ(Wait().exit_code, 0);
  EXPECT_EQ(WholeLog(), "a b\nc none /\n");
  ::unsetenv("OF_THE_SHIM");
}

TEST_F(CommandShimTest, IsLookedUpInItsOwnPath) {
  std::filesystem::create_directories(dir_ + "/bin");
  std::ofstream(dir_ + "/bin/mine") << "#!/bin/sh\necho found\n";
  ASSERT_EQ(::chmod((dir_ + "/bin/mine").c_str(), 0700), 0);
  path_ = dir_ + "/bin:/usr/bin:/bin";
  StartCommand({"mine"});
  EXPECT_EQ(Wait().exit_code, 0);
  EXPECT_EQ(WholeLog(), "found\n");
}

TEST_F(CommandShimTest, WhatCannotBeStartedIsSaid) {
  StartCommand({"no-such-program"});
  const ExitRecord record = Wait();
  EXPECT_THAT(record.start_error, AllOf(HasSubstr("no-such-program"), HasSubstr("No such file")));
  EXPECT_TRUE(record.is_input_error);
}

TEST_F(CommandShimTest, AWorkingDirectoryThatIsMissingIsNamed) {
  working_directory_ = "/no/such/folder";
  StartCommand({"true"});
  EXPECT_THAT(Wait().start_error, HasSubstr("working_directory /no/such/folder: No such file"));
}

TEST_F(CommandShimTest, ClosedOutputAndBinaryOutputAreFine) {
  StartCommand({"bash", "-c", "printf 'a\\0\\377b'; exec >&- 2>&-; sleep 0.01; exit 7"});
  EXPECT_EQ(Wait().exit_code, 7);
  EXPECT_EQ(WholeLog(), std::string("a\0\377b", 4));
}

TEST_F(CommandShimTest, ALinkInThePlaceOfTheLogIsNotFollowed) {
  const std::string elsewhere = dir_ + "/elsewhere";
  std::filesystem::create_directories(elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, own_dir_ + "/log");
  StartCommand({"echo", "secret"});
  EXPECT_THAT(Wait().start_error, HasSubstr("cannot open"));
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

// A limit on file size stands for a disk that is full for a while.
TEST(LogPumpTest, WhatFindsNoRoomIsDroppedAndCounted) {
  std::string dir = ::testing::TempDir() + "/log_pump.XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  absl::StatusOr<LogPump> pump = LogPump::Open(dir + "/log", std::nullopt, 1 << 20);
  ASSERT_TRUE(pump.ok()) << pump.status();
  const auto write = [&](const std::string& text) {
    ASSERT_EQ(::write(pump->input(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    pump->Pump();
  };
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {10, before.rlim_max};
  write("12345");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  write("6789\nabcd");
  write("efgh\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  write("on\n");
  pump->CloseInput();
  EXPECT_FALSE(pump->Pump());
  EXPECT_EQ(pump->fd(), -1);
  EXPECT_EQ(Contents(dir + "/log/00000000000000000000.log"),
            "123456789\n[paceline] 9 bytes of output are missing here: File too large\non\n");
}

}  // namespace
}  // namespace paceline
