#include "controller/core/cluster/deadlines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(DeadlinesTest, TheFirstOfAllIsNext) {
  Deadlines<std::string> deadlines;
  EXPECT_EQ(deadlines.Next(), absl::InfiniteFuture());
  deadlines.Set("b", At(5));
  deadlines.Set("a", At(7));
  deadlines.Set("c", At(6));
  EXPECT_EQ(deadlines.Next(), At(5));
}

TEST(DeadlinesTest, ALaterOneTakesTheEarlierOnesPlace) {
  Deadlines<std::string> deadlines;
  deadlines.Set("a", At(5));
  deadlines.Set("b", At(6));
  deadlines.Set("a", At(9));
  EXPECT_EQ(deadlines.Next(), At(6));
  deadlines.Set("b", absl::InfiniteFuture());
  EXPECT_EQ(deadlines.Next(), At(9));
  deadlines.Set("a", absl::InfiniteFuture());
  EXPECT_EQ(deadlines.Next(), absl::InfiniteFuture());
}

TEST(DeadlinesTest, WhatIsDueIsTakenOnce) {
  Deadlines<std::string> deadlines;
  deadlines.Set("a", At(7));
  deadlines.Set("b", At(5));
  deadlines.Set("c", At(8));
  EXPECT_THAT(deadlines.TakeDue(At(7)), ElementsAre("b", "a"));
  EXPECT_THAT(deadlines.TakeDue(At(7)), IsEmpty());
  EXPECT_EQ(deadlines.Next(), At(8));
}

TEST(DeadlinesTest, TwoAtTheSameTimeAreTwo) {
  Deadlines<std::string> deadlines;
  deadlines.Set("a", At(5));
  deadlines.Set("b", At(5));
  deadlines.Set("a", absl::InfiniteFuture());
  EXPECT_EQ(deadlines.Next(), At(5));
}

}  // namespace
}  // namespace paceline
