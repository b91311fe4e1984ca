#include "cli/rpc/interrupt.h"

#include <thread>

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(InterruptTest, ListenersAreCalledOnlyWhileTheyLive) {
  Interrupt interrupt;
  int calls = 0;
  {
    const Interrupt::Listener gone(interrupt, [&] { calls += 100; });
  }
  const Interrupt::Listener listener(interrupt, [&] { ++calls; });
  EXPECT_TRUE(interrupt.Raise());
  EXPECT_EQ(calls, 1);
}

TEST(InterruptTest, LateListenerIsCalledAtOnce) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.Raise());
  int calls = 0;
  const Interrupt::Listener listener(interrupt, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(InterruptTest, EndsAWait) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.WaitFor(absl::ZeroDuration()));
  std::thread raiser([&] { interrupt.Raise(); });
  EXPECT_TRUE(interrupt.WaitFor(absl::InfiniteDuration()));
  raiser.join();
}

}  // namespace
}  // namespace paceline
