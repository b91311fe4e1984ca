#include "worker/trainer/generation/conductor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "worker/trainer/testing/fake_control.h"

namespace paceline {
namespace {

Assignment Order(int64_t generation, int rank = 0, bool planned = false) {
  Assignment assignment;
  assignment.member.generation = generation;
  assignment.member.rank = rank;
  assignment.member.world_size = 2;
  assignment.store_address = "host:1";
  assignment.planned = planned;
  return assignment;
}

class ConductorTest : public testing::Test {
 protected:
  static RecoveryConfig Recovery(absl::Duration give_up = absl::Seconds(60)) {
    RecoveryConfig recovery;
    recovery.enabled = true;
    recovery.give_up = give_up;
    return recovery;
  }

  // Joins the newest generation, which must be `generation`.
  static void RunRendezvous(Conductor& conductor, int64_t generation) {
    const auto next = conductor.WaitForRendezvous();
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_TRUE(next->has_value());
    EXPECT_EQ((*next)->member.generation, generation);
    conductor.SetRendezvousDone(0);
  }

  FakeControl control_;
  std::atomic<int> ended_{0};
  Conductor conductor_{control_, Recovery(), [this] { ++ended_; }};
};

TEST_F(ConductorTest, AReplacedGenerationIsEndedOnceAtOnce) {
  conductor_.SetLoaded(0);
  control_.Assign(Order(1));
  RunRendezvous(conductor_, 1);
  EXPECT_EQ(control_.membership().generation, 1);
  control_.Assign(Order(1));
  EXPECT_EQ(ended_, 0) << "nothing new";
  control_.Assign(Order(2));
  EXPECT_EQ(ended_, 1);
  EXPECT_TRUE(conductor_.is_over());
  control_.Assign(Order(3));
  conductor_.EndCollectives();
  EXPECT_EQ(ended_, 1);
  conductor_.SetFailed("", 5);
  EXPECT_TRUE(control_.membership().waiting);
  EXPECT_EQ(control_.membership().step, 5);
  RunRendezvous(conductor_, 3);
  EXPECT_FALSE(conductor_.is_over());
}

TEST_F(ConductorTest, AGenerationThatIsReplacedDuringItsRendezvousIsOver) {
  conductor_.SetLoaded(0);
  control_.Assign(Order(1));
  ASSERT_TRUE(conductor_.WaitForRendezvous().ok());
  control_.Assign(Order(2));
  EXPECT_TRUE(conductor_.is_over());
  conductor_.SetFailed("", 0);
  RunRendezvous(conductor_, 2);
}

TEST_F(ConductorTest, ALostStateIsToldAsNone) {
  conductor_.SetLoaded(0);
  control_.Assign(Order(1));
  RunRendezvous(conductor_, 1);
  control_.Assign(Order(2));
  conductor_.SetFailed("", 5);
  EXPECT_EQ(control_.membership().generation, 1);
  ASSERT_TRUE(conductor_.WaitForRendezvous().ok());
  control_.Assign(Order(3));
  conductor_.SetFailed("", -1);
  EXPECT_EQ(control_.membership().generation, 0);
  EXPECT_EQ(control_.membership().step, 0);
  RunRendezvous(conductor_, 3);
  EXPECT_EQ(control_.membership().generation, 3);
}

TEST_F(ConductorTest, APlannedGenerationEndsNothing) {
  conductor_.SetLoaded(0);
  control_.Assign(Order(1));
  RunRendezvous(conductor_, 1);
  control_.Assign(Order(2, 1, /*planned=*/true));
  EXPECT_FALSE(conductor_.is_over());
  EXPECT_EQ(conductor_.Planned().action, MembershipState::Action::kConnect);
  conductor_.SetConnected(2, true);
  EXPECT_EQ(control_.membership().ready_generation, 2);
  EXPECT_EQ(conductor_.Planned().action, MembershipState::Action::kAgree);
  conductor_.SetLeft(7);
  RunRendezvous(conductor_, 2);
  EXPECT_EQ(conductor_.Planned().action, MembershipState::Action::kWait);
  EXPECT_EQ(ended_, 0);
}

TEST_F(ConductorTest, WaitsNoLongerThanItMay) {
  Conductor conductor(control_, Recovery(absl::Milliseconds(100)), [] {});
  conductor.SetLoaded(0);
  control_.Assign(Order(1));
  RunRendezvous(conductor, 1);
  conductor.EndCollectives();
  conductor.SetFailed("a connection broke", 3);
  const auto next = conductor.WaitForRendezvous();
  EXPECT_EQ(next.status().message(), "a connection broke");
}

TEST_F(ConductorTest, ARequestToStopEndsTheWait) {
  conductor_.SetLoaded(0);
  control_.RequestStop();
  const auto next = conductor_.WaitForRendezvous();
  ASSERT_TRUE(next.ok());
  EXPECT_FALSE(next->has_value());
}

// Replaces each generation while it is met, trained in, or left.
TEST_F(ConductorTest, NoOrderIsMissedWhateverTheMoment) {
  constexpr int64_t kLast = 300;
  std::thread daemon([this] {
    for (int64_t generation = 1; generation <= kLast; ++generation) {
      control_.Assign(Order(generation, 0, /*planned=*/generation % 3 == 0));
      if (generation % 7 != 0) absl::SleepFor(absl::Microseconds(generation % 5 * 50));
    }
  });
  conductor_.SetLoaded(0);
  int64_t met = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (met < kLast && absl::Now() < deadline) {
    const auto next = conductor_.WaitForRendezvous();
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_TRUE(next->has_value());
    EXPECT_GT((*next)->member.generation, met);
    met = (*next)->member.generation;
    conductor_.SetRendezvousDone(met);
    while (met < kLast && !conductor_.is_over() && absl::Now() < deadline) {
      const MembershipState::Step planned = conductor_.Planned();
      if (planned.action == MembershipState::Action::kConnect) {
        conductor_.SetConnected(planned.generation, true);
      }
      if (planned.action == MembershipState::Action::kAgree) break;
    }
    if (met == kLast) break;
    if (conductor_.is_over()) {
      conductor_.EndCollectives();
      conductor_.SetFailed("", met);
    } else {
      conductor_.SetLeft(met);
    }
  }
  daemon.join();
  EXPECT_EQ(met, kLast);
}

}  // namespace
}  // namespace paceline
