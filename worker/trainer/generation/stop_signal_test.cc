#include "worker/trainer/generation/stop_signal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/status/status.h"

namespace paceline {
namespace {

constexpr int kFormerCode = 9;

std::atomic<int> former_calls{0};

void CountFormer(int /*signal_number*/) { ++former_calls; }
void ExitFormer(int /*signal_number*/) { ::_exit(kFormerCode); }

// Puts back what handled SIGTERM before the test.
class StopSignalTest : public testing::Test {
 protected:
  StopSignalTest() { ::sigaction(SIGTERM, nullptr, &before_); }
  ~StopSignalTest() override { ::sigaction(SIGTERM, &before_, nullptr); }

  static bool IsReadable(int fd) {
    pollfd file = {fd, POLLIN, 0};
    return ::poll(&file, 1, /*timeout=*/0) == 1;
  }

  // Runs `child` in a forked child. Returns its wait status.
  template <typename F>
  static int Fork(F child) {
    const pid_t process = ::fork();
    if (process == 0) {
      child();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    return status;
  }

 private:
  struct sigaction before_ = {};
};

TEST_F(StopSignalTest, IsTakenThoughThreadsExistedBefore) {
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) ::usleep(1000);
  });
  ::signal(SIGTERM, CountFormer);
  former_calls = 0;
  {
    const auto signal = StopSignal::Handle();
    ASSERT_TRUE(signal.ok()) << signal.status();
    StopSignal& stop = **signal;
    EXPECT_FALSE(IsReadable(stop.fd()));
    EXPECT_FALSE(stop.Take());
    ::pthread_kill(other.native_handle(), SIGTERM);
    pollfd file = {stop.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&file, 1, /*timeout=*/-1), 1);
    ::raise(SIGTERM);
    EXPECT_TRUE(stop.Take());
    EXPECT_FALSE(stop.Take()) << "two that came together are one";
    EXPECT_EQ(former_calls.load(), 0);
  }
  ::raise(SIGTERM);
  EXPECT_EQ(former_calls.load(), 1);
  ends = true;
  other.join();
}

TEST_F(StopSignalTest, OnlyOneHandles) {
  auto first = StopSignal::Handle();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(StopSignal::Handle().status().code(), absl::StatusCode::kFailedPrecondition);
  first->reset();
  EXPECT_TRUE(StopSignal::Handle().ok());
}

TEST_F(StopSignalTest, IsLetThroughToTheFormerHandler) {
  ::signal(SIGTERM, CountFormer);
  former_calls = 0;
  const auto signal = StopSignal::Handle();
  ASSERT_TRUE(signal.ok());
  (*signal)->LetThrough();
  while (former_calls == 0) ::usleep(100);  // Another thread may get it.
  EXPECT_FALSE((*signal)->Take());
}

TEST_F(StopSignalTest, HandlerThatSomebodyInstalledLaterStays) {
  {
    const auto signal = StopSignal::Handle();
    ASSERT_TRUE(signal.ok());
    ::signal(SIGTERM, CountFormer);
  }
  former_calls = 0;
  ::raise(SIGTERM);
  EXPECT_EQ(former_calls.load(), 1);
}

TEST_F(StopSignalTest, SignalOfAForkedChildIsItsOwn) {
  for (const bool has_handler : {false, true}) {
    ::signal(SIGTERM, has_handler ? ExitFormer : SIG_DFL);
    const auto signal = StopSignal::Handle();
    ASSERT_TRUE(signal.ok());
    const int status = Fork([] { ::raise(SIGTERM); });
    if (has_handler) {
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), kFormerCode);
    } else {
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(WTERMSIG(status), SIGTERM);
    }
    EXPECT_FALSE((*signal)->Take());
    ::raise(SIGTERM);
    EXPECT_TRUE((*signal)->Take()) << "the parent's handler is as before";
  }
}

// In a child, since the mask stays.
TEST_F(StopSignalTest, IsTakenWhereItIsBlocked) {
  const int status = Fork([] {
    const auto signal = StopSignal::Block();
    if (!signal.ok() || (*signal)->Take()) ::_exit(1);
    ::raise(SIGTERM);
    if (!IsReadable((*signal)->fd()) || !(*signal)->Take() || (*signal)->Take()) ::_exit(2);
    (*signal)->Restore();
    ::raise(SIGTERM);
    if (!(*signal)->Take()) ::_exit(3);
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace paceline
