#include "controller/core/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobRequest Ranks(int ranks, Device device = Device::kCpu) {
  return {JobId("job-1"), "digits", ranks, device, ""};
}

// A node whose last `free` places are free.
NodeSpace Space(const char* name, int total, int free, bool open = true) {
  NodeSpace space{NodeName(name), total, {}, open};
  for (int number = total - free; number < total; ++number) space.free.push_back(number);
  return space;
}

std::vector<std::string> Names(const Placement& placement) {
  std::vector<std::string> names;
  for (const Place& place : placement.places) {
    names.push_back(place.node.value() + std::to_string(place.number));
  }
  return names;
}

TEST(PlacementTest, TakesTheEmptiestNodesFirstAndFillsTheLastOne) {
  EXPECT_THAT(Names(PlaceRanks(Ranks(4), {Space("a", 4, 1), Space("b", 4, 3), Space("c", 4, 2)})),
              ElementsAre("b1", "b2", "b3", "a3"));
}

TEST(PlacementTest, AllRanksOrNone) {
  const Placement placement = PlaceRanks(Ranks(4), {Space("a", 2, 2), Space("b", 2, 1)});
  EXPECT_THAT(placement.places, IsEmpty());
  EXPECT_THAT(placement.reason, HasSubstr("waits for 4 slots: 3 free now"));
}

TEST(PlacementTest, NodeThatDoesNotAnswerTakesNoRankAndIsNamed) {
  const Placement placement = PlaceRanks(Ranks(2), {Space("a", 2, 2, /*open=*/false)});
  EXPECT_THAT(placement.places, IsEmpty());
  EXPECT_THAT(placement.reason, HasSubstr("2 on nodes that do not answer"));
}

TEST(PlacementTest, WhatCouldNeverFitIsRefusedWithTheReason) {
  const auto nodes = {Space("a", 2, 0), Space("b", 1, 0, /*open=*/false)};
  EXPECT_TRUE(CanEverFit(Ranks(3), nodes).ok());
  const absl::Status refused = CanEverFit(Ranks(4), nodes);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("needs 4 slots and the 2 nodes have 3"));
  EXPECT_THAT(std::string(CanEverFit(Ranks(1), {}).message()), HasSubstr("no worker"));
}

}  // namespace
}  // namespace paceline
