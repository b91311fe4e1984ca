#include "worker/daemon/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline {
namespace {

TEST(ProcessStateTest, FindsTheStateBehindAnyName) {
  EXPECT_EQ(StateLetter("12 (bash) S 1 12"), 'S');
  EXPECT_EQ(StateLetter("12 (a) R (b) T 1 12"), 'T');
  EXPECT_EQ(StateLetter("12 (bash"), '\0');
  EXPECT_EQ(StateLetter("12 (bash)"), '\0');
  EXPECT_EQ(StateLetter(""), '\0');
}

TEST(ProcessStateTest, FindsTheParentBehindAnyName) {
  EXPECT_EQ(ParentIn("12 (bash) S 345 12 12"), 345);
  EXPECT_EQ(ParentIn("12 (a) R 7 (b) T 345 12"), 345);
  for (const char* text : {"", "12 (bash", "12 (bash)", "12 (bash) S", "12 (bash) S x"}) {
    EXPECT_EQ(ParentIn(text), 0) << text;
  }
  EXPECT_EQ(ParentOf(::getpid()), ::getppid());
  EXPECT_EQ(ParentOf(999999999), 0);
}

TEST(ProcessStateTest, StoppedProcessIsSuspendedUntilItGoesOn) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  const ProcessState state(child);
  EXPECT_FALSE(state.Suspended());
  int status = 0;
  ::kill(child, SIGSTOP);
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(state.Suspended());
  ::kill(child, SIGCONT);
  ::waitpid(child, &status, WCONTINUED);
  EXPECT_FALSE(state.Suspended());
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(state.Suspended());
}

TEST(ProcessStateTest, ProcessThatNeverWasIsNotSuspended) {
  EXPECT_FALSE(ProcessState(999999999).Suspended());
}

}  // namespace
}  // namespace paceline
