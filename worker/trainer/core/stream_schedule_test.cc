#include "worker/trainer/core/stream_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace paceline {
namespace {

using Kind = AveragingSchedule::Kind;

StreamSchedule Schedule(Kind kind, int64_t interval, int64_t warmup, int64_t fragments) {
  StreamSchedule schedule;
  schedule.begins.kind = kind;
  schedule.begins.periods = {interval};
  schedule.begins.warmup_steps = warmup;
  schedule.fragments = fragments;
  return schedule;
}

TEST(StreamScheduleTest, FragmentsTakeTurns) {
  for (const Kind kind : {Kind::kHierarchical, Kind::kPeriodic}) {
    for (const int64_t interval : {1, 3, 5}) {
      for (const int64_t warmup : {0, 1, 4, 10}) {
        const StreamSchedule schedule = Schedule(kind, interval, warmup, 3);
        const int64_t origin = kind == Kind::kPeriodic ? warmup : 0;
        for (int64_t step = 0; step < 60; ++step) {
          const bool begins = step >= warmup && (step - origin) % interval == 0;
          ASSERT_EQ(schedule.BeginsAfter(step), begins) << step;
          if (!begins) continue;
          ASSERT_EQ(schedule.FragmentOf(step), static_cast<size_t>((step - origin) / interval % 3));
        }
      }
    }
  }
}

TEST(StreamScheduleTest, TheSecondExchangeBeginsInTheDelaysLastHalf) {
  StreamSchedule schedule = Schedule(Kind::kHierarchical, 8, 0, 1);
  for (const int64_t delay : {0, 1, 2, 3, 6, 7}) {
    schedule.delay = delay;
    EXPECT_LE(schedule.turn(), delay);
    EXPECT_GE(2 * schedule.turn(), delay);
    EXPECT_LE(2 * schedule.turn(), delay + 1);
  }
}

TEST(StreamScheduleTest, FragmentsHaveAllParametersOnceAndAreOfAboutEqualSize) {
  std::mt19937 random(1);
  const auto number = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int history = 0; history < 2000; ++history) {
    std::vector<int64_t> sizes(static_cast<size_t>(number(1, 12)));
    for (int64_t& size : sizes) size = number(0, 20);
    const int fragments = number(1, 6);
    const std::vector<Fragment> cut = CutIntoFragments(sizes, fragments);
    ASSERT_EQ(cut.size(), static_cast<size_t>(fragments));
    const bool enough = sizes.size() >= cut.size();
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const int64_t largest = *std::max_element(sizes.begin(), sizes.end());
    size_t next = 0;
    int64_t offset = 0;
    for (const Fragment& fragment : cut) {
      ASSERT_EQ(fragment.first, next);
      ASSERT_EQ(fragment.offset, offset);
      if (enough) {
        ASSERT_GT(fragment.end, fragment.first);
        ASSERT_LE(fragment.values, total / fragments + 1 + largest);
      }
      for (; next < fragment.end; ++next) offset += sizes[next];
      ASSERT_EQ(fragment.offset + fragment.values, offset);
    }
    ASSERT_EQ(next, sizes.size());
  }
}

TEST(StreamScheduleTest, FewParametersLeaveFragmentsEmpty) {
  const std::vector<Fragment> cut = CutIntoFragments({5, 7}, 3);
  EXPECT_EQ(cut[0].values, 5);
  EXPECT_EQ(cut[1].values, 7);
  EXPECT_EQ(cut[2].values, 0);
}

}  // namespace
}  // namespace paceline
