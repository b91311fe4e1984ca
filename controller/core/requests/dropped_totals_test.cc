#include "controller/core/requests/dropped_totals.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

const NodeName kNode("a");

TEST(DroppedTotalsTest, WhatIsToldAgainCountsOnceInAllSessionsOfADaemon) {
  DroppedTotals totals;
  totals.Begin(kNode, "d1", 0);
  EXPECT_EQ(totals.Take(kNode, 10), 10);
  EXPECT_EQ(totals.Take(kNode, 10), 0);
  // The daemon does not know that it was heard.
  totals.Begin(kNode, "d1", 0);
  EXPECT_EQ(totals.Take(kNode, 25), 15);
  totals.Begin(kNode, "d1", 25);
  EXPECT_EQ(totals.Take(kNode, 26), 1);
}

TEST(DroppedTotalsTest, ALaterDaemonOfTheNodeCountsAnew) {
  DroppedTotals totals;
  totals.Begin(kNode, "d1", 0);
  EXPECT_EQ(totals.Take(kNode, 10), 10);
  totals.Begin(kNode, "d2", 0);
  EXPECT_EQ(totals.Take(kNode, 12), 12);
}

TEST(DroppedTotalsTest, NodesCountForThemselves) {
  DroppedTotals totals;
  totals.Begin(kNode, "d1", 0);
  totals.Begin(NodeName("b"), "d1", 0);
  EXPECT_EQ(totals.Take(kNode, 10), 10);
  EXPECT_EQ(totals.Take(NodeName("b"), 10), 10);
}

TEST(DroppedTotalsTest, AfterAStartWhatTheDaemonDoesNotKnowToBeCountedCounts) {
  DroppedTotals totals;
  totals.Begin(kNode, "d1", 30);
  EXPECT_EQ(totals.Take(kNode, 30), 0);
  EXPECT_EQ(totals.Take(kNode, 34), 4);
}

TEST(DroppedTotalsTest, WhatAnotherControllerHasCountedMeanwhileIsNotCountedHere) {
  DroppedTotals totals;
  totals.Begin(kNode, "d1", 0);
  EXPECT_EQ(totals.Take(kNode, 10), 10);
  totals.Begin(kNode, "d1", 50);
  EXPECT_EQ(totals.Take(kNode, 50), 0);
  EXPECT_EQ(totals.Take(kNode, 51), 1);
}

TEST(DroppedTotalsTest, WhatCannotBeTrueTakesNothingBack) {
  DroppedTotals totals;
  totals.Begin(kNode, "d1", INT64_MIN);
  EXPECT_EQ(totals.Take(kNode, INT64_MIN), 0);
  EXPECT_EQ(totals.Take(kNode, 7), 7);
  EXPECT_EQ(totals.Take(kNode, 3), 0) << "less than before";
  EXPECT_EQ(totals.Take(kNode, INT64_MAX), INT64_MAX - 7);
  EXPECT_EQ(totals.Take(NodeName("b"), 5), 5) << "without a beginning";
}

}  // namespace
}  // namespace paceline
