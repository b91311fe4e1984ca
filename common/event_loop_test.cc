#include "common/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace {

// How far this process believes the wall clock to be ahead of the kernel's. Waiting until a time
// computed that way acts like waiting while the clock is set back by that much.
std::atomic<int64_t> wall_clock_ahead_s{0};

}  // namespace

// Replaces the C library's function, also for Abseil and the C++ library.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto result = ::syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += wall_clock_ahead_s;
  return static_cast<int>(result);
}

// absl::Mutex uses this one.
extern "C" int gettimeofday(timeval* now, void* /*zone*/) noexcept {
  timespec exact;
  ::clock_gettime(CLOCK_REALTIME, &exact);
  *now = {exact.tv_sec, exact.tv_nsec / 1000};
  return 0;
}

namespace paceline {
namespace {

using ::testing::ElementsAre;

// Its waits would last an hour if they used the wall clock.
class SetBackClockTest : public ::testing::Test {
 protected:
  SetBackClockTest() { wall_clock_ahead_s = 3600; }
  ~SetBackClockTest() override { wall_clock_ahead_s = 0; }
};

TEST_F(SetBackClockTest, TimersRunWhenTheyAreDue) {
  EventLoop loop;
  loop.After(absl::Milliseconds(10), [&] { loop.Stop(); });
  loop.Run();
}

TEST_F(SetBackClockTest, WaitsOfAbseilEndWhenTheyShould) {
  const timespec real_before = absl::ToTimespec(absl::Now());
  timespec kernels;
  ::syscall(SYS_clock_gettime, CLOCK_REALTIME, &kernels);
  ASSERT_GT(real_before.tv_sec, kernels.tv_sec + 3000) << "the clock is not replaced";
  constexpr absl::Duration kWait = absl::Milliseconds(10);
  const absl::Time begin = EventLoop::Now();
  absl::Mutex mutex;
  absl::CondVar changed;
  bool never = false;
  {
    const absl::MutexLock lock(&mutex);
    EXPECT_FALSE(mutex.AwaitWithTimeout(absl::Condition(&never), kWait));
    EXPECT_TRUE(changed.WaitWithTimeout(&mutex, kWait));
    EXPECT_TRUE(changed.WaitWithDeadline(&mutex, absl::Now() + kWait));
    EXPECT_TRUE(changed.WaitWithDeadline(&mutex, absl::InfinitePast()));
  }
  EXPECT_FALSE(absl::Notification().WaitForNotificationWithTimeout(kWait));
  EXPECT_GE(EventLoop::Now() - begin, 4 * kWait - absl::Milliseconds(1));
}

TEST_F(SetBackClockTest, WaitsOfAbseilEndWhenTheyAreWoken) {
  absl::Mutex mutex;
  bool done = false;
  std::thread other([&] {
    const absl::MutexLock lock(&mutex);
    done = true;
  });
  {
    const absl::MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&done), absl::InfiniteDuration()));
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&done), absl::Seconds(1)));
  }
  other.join();
}

TEST(EventLoopTest, RunsTasksInTheOrderOfPosting) {
  EventLoop loop;
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) loop.Post([&order, i] { order.push_back(i); });
  loop.Post([&] { loop.Stop(); });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(EventLoopTest, TimersRunByDueTimeAndNotBefore) {
  EventLoop loop;
  std::vector<int> order;
  const absl::Time start = EventLoop::Now();
  loop.After(absl::Milliseconds(20), [&] {
    order.push_back(2);
    EXPECT_GE(EventLoop::Now() - start, absl::Milliseconds(20));
    loop.Stop();
  });
  loop.After(absl::Milliseconds(5), [&] { order.push_back(1); });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(EventLoopTest, CancelledTimerDoesNotRun) {
  EventLoop loop;
  bool ran = false;
  const EventLoop::TimerId timer = loop.After(absl::Milliseconds(1), [&] { ran = true; });
  loop.Cancel(timer);
  loop.After(absl::Milliseconds(5), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_FALSE(ran);
}

TEST(EventLoopTest, TimerThatIsDueBehindOtherTasksCanBeCancelled) {
  EventLoop loop;
  bool ran = false;
  loop.Post([&] {
    const EventLoop::TimerId timer = loop.After(absl::ZeroDuration(), [&] { ran = true; });
    // When the second of them runs, the timer waits behind it.
    loop.Post([] {});
    loop.Post([&loop, timer] { loop.Cancel(timer); });
    loop.Post([&] { loop.After(absl::Milliseconds(1), [&] { loop.Stop(); }); });
  });
  loop.Run();
  EXPECT_FALSE(ran);
}

TEST(EventLoopTest, TellsHowManyTasksHaveWaited) {
  EventLoop loop;
  for (int i = 0; i < 3; ++i) loop.Post([] {});
  EXPECT_EQ(loop.TakeMostWaiting(), 3u);
  size_t most = 0;
  loop.Post([&] {
    // Three tasks have run since.
    most = loop.TakeMostWaiting();
    loop.Stop();
  });
  loop.Run();
  EXPECT_EQ(most, 4u);
  EXPECT_EQ(loop.TakeMostWaiting(), 0u) << "of what came later";
}

TEST(EventLoopTest, WakesForAPostFromAnotherThread) {
  EventLoop loop;
  std::thread poster([&] { loop.Post([&] { loop.Stop(); }); });
  loop.Run();
  poster.join();
}

TEST(EventLoopDeathTest, NoticesAForeignThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        EventLoop loop;
        loop.Post([&] { std::thread([&] { loop.CheckOnLoop(); }).join(); });
        loop.Run();
      },
      "another thread");
}

}  // namespace
}  // namespace paceline
