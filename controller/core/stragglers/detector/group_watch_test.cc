#include "controller/core/stragglers/detector/group_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace paceline {
namespace {

using Event = GroupWatch::Event;

struct Watched {
  // Plays rows. Returns the last event that was not kNone.
  Event Play(int rows, double typical, double noise = 0.002) {
    Event last = Event::kNone;
    for (int i = 0; i < rows; ++i) {
      row.step += 10;
      row.typical = typical + noise * normal(random);
      const Event event = watch.Update(row);
      if (event == Event::kNone) continue;
      last = event;
      reported = row.step;
    }
    return last;
  }

  Watched() {
    row.ranks = 16;
    row.of_groups = std::numeric_limits<double>::quiet_NaN();
  }

  GroupWatch watch;
  GroupRow row;
  int64_t reported = 0;
  uint64_t seed = 11;
  std::mt19937_64 random{seed};
  std::normal_distribution<double> normal;
};

TEST(GroupWatchTest, MoreThanAQuarterSlowIsToldOnce) {
  Watched watched;
  watched.row.slow = 4;
  EXPECT_EQ(watched.Play(50, 1), Event::kNone);
  EXPECT_FALSE(watched.watch.held());
  watched.row.slow = 5;
  watched.row.slow_excess = 0.2;
  watched.row.slow_low = 0.1;
  watched.row.slow_high = 0.4;
  EXPECT_EQ(watched.Play(1, 1), Event::kMany);
  EXPECT_NEAR(watched.watch.slowdown(), std::exp(0.2), 1e-9);
  EXPECT_NEAR(watched.watch.slowdown_low(), std::exp(0.1), 1e-9);
  EXPECT_NEAR(watched.watch.slowdown_high(), std::exp(0.4), 1e-9);
  EXPECT_EQ(watched.Play(50, 1), Event::kNone);
  EXPECT_TRUE(watched.watch.held());
  watched.row.slow = 4;
  EXPECT_EQ(watched.Play(1, 1), Event::kNone);
  EXPECT_FALSE(watched.watch.held());
}

TEST(GroupWatchTest, RiseIsAJump) {
  Watched watched;
  EXPECT_EQ(watched.Play(100, 1), Event::kNone);
  EXPECT_EQ(watched.Play(5, 1.2), Event::kNone);
  EXPECT_EQ(watched.Play(5, 1), Event::kNone) << "five rows are not enough";
  watched.Play(10, 1);
  EXPECT_EQ(watched.Play(8, 1.2), Event::kJump);
  EXPECT_NEAR(watched.watch.slowdown(), std::exp(0.2), 0.02);
  EXPECT_LT(watched.watch.slowdown_low(), watched.watch.slowdown());
  EXPECT_GT(watched.watch.slowdown_low(), std::exp(0.18));
  EXPECT_GT(watched.watch.slowdown_high(), watched.watch.slowdown());
  EXPECT_LT(watched.watch.slowdown_high(), std::exp(0.21));
  EXPECT_EQ(watched.watch.since_step(), 1210);
  EXPECT_TRUE(watched.watch.held());
}

TEST(GroupWatchTest, FallIsNoNews) {
  Watched watched;
  watched.Play(100, 1);
  EXPECT_EQ(watched.Play(50, 0.8), Event::kNone);
  EXPECT_FALSE(watched.watch.held());
  EXPECT_EQ(watched.Play(100, 1), Event::kNone) << "it was no more than that";
  EXPECT_EQ(watched.Play(200, 0.8), Event::kNone);
  EXPECT_EQ(watched.Play(20, 1), Event::kJump) << "the lower time was the new normal";
}

TEST(GroupWatchTest, JumpThatStaysIsTheNewNormal) {
  Watched watched;
  watched.Play(100, 1);
  EXPECT_EQ(watched.Play(140, 1.2), Event::kJump);
  EXPECT_TRUE(watched.watch.held());
  EXPECT_EQ(watched.Play(300, 1.2), Event::kNone);
  EXPECT_FALSE(watched.watch.held());
}

TEST(GroupWatchTest, DriftAndNoiseAreNoJump) {
  Watched watched;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(watched.Play(10, 1 + 0.03 * std::sin(i / 6.0)), Event::kNone);
  }
  Watched noisy;
  EXPECT_EQ(noisy.Play(3000, 1, 0.08), Event::kNone);
}

TEST(GroupWatchTest, AnotherQuantityIsNoJump) {
  Watched watched;
  watched.Play(100, 1);
  watched.row.quantity = 1;
  EXPECT_EQ(watched.Play(100, -5), Event::kNone);
}

TEST(GroupWatchTest, StageSlowerThanTheOthersIsToldOnceAndDoesNotHold) {
  Watched watched;
  watched.row.of_groups = 1;
  EXPECT_EQ(watched.Play(19, 1.3), Event::kNone);
  EXPECT_EQ(watched.Play(1, 1.3), Event::kUneven);
  EXPECT_NEAR(watched.watch.slowdown(), std::exp(0.3), 0.01);
  EXPECT_GT(watched.watch.slowdown_low(), std::exp(0.29));
  EXPECT_LT(watched.watch.slowdown_high(), std::exp(0.31));
  EXPECT_LT(watched.watch.slowdown_low(), watched.watch.slowdown_high());
  EXPECT_EQ(watched.watch.since_step(), 10);
  EXPECT_EQ(watched.Play(500, 1.3), Event::kNone);
  EXPECT_FALSE(watched.watch.held());
  Watched even;
  even.row.of_groups = 1;
  EXPECT_EQ(even.Play(500, 1.05), Event::kNone);
}

}  // namespace
}  // namespace paceline
