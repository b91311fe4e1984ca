#include "worker/daemon/trainers/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
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

// A child of this process whose own child uses a measurable amount of processor time; then both
// wait.
class BusyGrandchild {
 public:
  BusyGrandchild() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    child_ = ::fork();
    if (child_ == 0) {
      if (::fork() == 0) {
        while (::clock() < CLOCKS_PER_SEC / 10) {
        }
        const pid_t own = ::getpid();
        if (::write(ends[1], &own, sizeof(own)) < 0) ::_exit(1);
      }
      while (true) ::pause();
    }
    EXPECT_EQ(::read(ends[0], &pid_, sizeof(pid_)), static_cast<ssize_t>(sizeof(pid_)));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~BusyGrandchild() {
    ::kill(pid_, SIGKILL);
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  pid_t child() const { return child_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t child_ = -1;
  pid_t pid_ = -1;
};

TEST(ProcessStateTest, KnowsWhoDescendsFromWhom) {
  const BusyGrandchild busy;
  EXPECT_TRUE(DescendsFrom(busy.pid(), busy.child()));
  EXPECT_TRUE(DescendsFrom(busy.pid(), ::getpid()));
  EXPECT_FALSE(DescendsFrom(busy.child(), busy.pid()));
  EXPECT_FALSE(DescendsFrom(busy.child(), busy.child()));
  EXPECT_FALSE(DescendsFrom(999999999, ::getpid()));
}

TEST(ProcessStateTest, ProcessorTimeIsThatOfAllBelow) {
  const BusyGrandchild busy;
  EXPECT_GE(ProcessorTimeBelow(busy.child()), absl::Milliseconds(50));
  EXPECT_GE(ProcessorTimeBelow(::getpid()), absl::Milliseconds(50));
  EXPECT_EQ(ProcessorTimeBelow(busy.pid()), absl::ZeroDuration());
  EXPECT_EQ(ProcessorTimeBelow(999999999), absl::ZeroDuration());
}

}  // namespace
}  // namespace paceline
