#include "common/event_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;

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
    // By the time the second of them runs, the timer waits behind it.
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
    // Three have been run since.
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
