#include "worker/daemon/checks/run_program.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace paceline {
namespace {

std::atomic<bool> never{false};

absl::StatusOr<ProgramEnd> Shell(const std::string& script,
                                 ProgramLimits limits = {absl::Seconds(20)}) {
  return RunProgram({"/bin/sh", "-c", script}, {"PATH=/bin:/usr/bin", "X=y"}, limits, never);
}

TEST(RunProgramTest, TakesOutputAndExitCode) {
  const auto end = Shell("echo \"said $X\"; echo wrong >&2; exit 3");
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->exit_code, 3);
  EXPECT_FALSE(end->timed_out);
  EXPECT_EQ(end->out, "said y\n");
  EXPECT_EQ(end->err, "wrong\n");
  EXPECT_EQ(Shell("kill -9 $$")->exit_code, -1);
}

TEST(RunProgramTest, OutputBeyondTheLimitIsDropped) {
  const auto end = Shell("yes | head -c 300000; echo end >&2", {absl::Seconds(20), 1000});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->exit_code, 0);
  EXPECT_EQ(end->out.size(), 1000);
  EXPECT_EQ(end->err, "end\n");
}

TEST(RunProgramTest, IsKilledWhenItsTimeIsOverWithWhatItStarted) {
  const absl::Time begin = absl::Now();
  const auto end = Shell("echo slow disk >&2; sleep 100 & sleep 100", {absl::Milliseconds(200)});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_TRUE(end->timed_out);
  EXPECT_EQ(end->exit_code, -1);
  EXPECT_EQ(end->err, "slow disk\n");
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST(RunProgramTest, EndsWhenItIsStopped) {
  std::atomic<bool> stop{true};
  EXPECT_EQ(RunProgram({"sleep", "100"}, {}, {absl::Seconds(100)}, stop).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(RunProgramTest, ChildThatKeepsTheOutputOpenDoesNotHoldItUp) {
  const auto end = Shell("sleep 100 & echo done");
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->out, "done\n");
}

TEST(RunProgramTest, MissingProgramIsNotFound) {
  EXPECT_EQ(RunProgram({"no-such-program"}, {}, {absl::Seconds(1)}, never).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline
