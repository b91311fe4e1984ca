#include "cli/dev/process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

std::string Temp(const std::string& name) { return ::testing::TempDir() + "/" + name; }

pid_t StartShell(const std::string& script, const std::string& log) {
  const absl::StatusOr<pid_t> pid =
      StartDetached({{"/bin/bash", "-c", script}, log, ::testing::TempDir()});
  EXPECT_TRUE(pid.ok()) << pid.status();
  return pid.value_or(0);
}

TEST(StartDetachedTest, RunsInASessionOfItsOwnWithItsOutputInTheLog) {
  const std::string log = Temp("session.log");
  const pid_t pid =
      StartShell("echo out; echo err >&2; echo sid $(($(cut -d' ' -f6 /proc/$$/stat) == $$))", log);
  std::string end;
  ASSERT_TRUE(WaitUntil([&] { return !(end = EndOfChild(pid)).empty(); }, absl::Seconds(30)));
  EXPECT_EQ(end, "exit code 0");
  EXPECT_EQ(LastLines(log, 3), "out\nerr\nsid 1\n");
}

TEST(StartDetachedTest, InheritsNoOpenFileAndNoBlockedSignal) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const int fd = dup(1);
  const std::string log = Temp("inherit.log");
  const pid_t pid = StartShell("[ -e /proc/$$/fd/" + std::to_string(fd) +
                                   " ] && echo open; exec grep SigBlk /proc/self/status",
                               log);
  EXPECT_TRUE(WaitUntil([&] { return !EndOfChild(pid).empty(); }, absl::Seconds(30)));
  close(fd);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(LastLines(log, 5), "SigBlk:\t0000000000000000\n");
}

TEST(StartDetachedTest, MissingProgramIsNamed) {
  const absl::Status status =
      StartDetached({{"/nonexistent/program"}, Temp("x.log"), "/"}).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/nonexistent/program"));
}

// A process that ignores SIGTERM and is "ours" while it lives.
TEST(EndProcessTest, KillsWhatDoesNotGo) {
  const std::string log = Temp("stubborn.log");
  const pid_t pid = StartShell("trap '' TERM; echo ready; while :; do sleep 0.05; done", log);
  ASSERT_TRUE(WaitUntil([&] { return LastLines(log, 1) == "ready\n"; }, absl::Seconds(30)));
  bool gone = false;
  const auto holder = [&] {
    if (!gone) gone = waitpid(pid, nullptr, WNOHANG) == pid;
    return gone ? 0 : pid;
  };
  EXPECT_TRUE(EndProcess(holder, absl::Milliseconds(100)).ok());
  EXPECT_TRUE(gone);
}

// A daemon releases its lock before it ends; EndProcess still waits for its end.
TEST(EndProcessTest, WaitsForWhatHoldsNothingAnyMore) {
  const std::string log = Temp("slow.log");
  const pid_t pid = StartShell(
      "trap 'echo let go; sleep 0.3; exit 0' TERM; echo ready; while :; do sleep 0.05; done", log);
  ASSERT_TRUE(WaitUntil([&] { return LastLines(log, 1) == "ready\n"; }, absl::Seconds(30)));
  const auto holder = [&] { return LastLines(log, 1) == "let go\n" ? 0 : pid; };
  EXPECT_TRUE(EndProcess(holder, absl::Seconds(30)).ok());
  EXPECT_NE(kill(pid, 0), 0) << "it is still there";
}

TEST(EndProcessTest, NothingToEndIsFine) {
  EXPECT_TRUE(EndProcess([] { return 0; }, absl::Seconds(1)).ok());
}

TEST(SignalIfOursTest, ProcessThatIsNotOursIsLeftAlone) {
  const pid_t pid = StartShell("exec sleep 1000", Temp("other.log"));
  EXPECT_FALSE(SignalIfOurs(pid, SIGKILL, [] { return false; }));
  EXPECT_EQ(EndOfChild(pid), "");
  EXPECT_TRUE(SignalIfOurs(pid, SIGKILL, [] { return true; }));
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(LastLinesTest, TakesTheEndOfTheFile) {
  const std::string path = Temp("lines.txt");
  std::ofstream(path) << "a\nb\nc\n";
  EXPECT_EQ(LastLines(path, 2), "b\nc\n");
  EXPECT_EQ(LastLines(path, 3), "a\nb\nc\n");
  EXPECT_EQ(LastLines(path, 9), "a\nb\nc\n");
  EXPECT_EQ(LastLines("/nonexistent", 2), "");
}

}  // namespace
}  // namespace paceline
