#include "cli/drill/core/rehearsal.h"

#include <iterator>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DrillFault kAll[] = {DrillFault::kNone,      DrillFault::kKill,  DrillFault::kStop,
                               DrillFault::kSlow,      DrillFault::kDrain, DrillFault::kFullDisk,
                               DrillFault::kController};

DrillSetting Complete() {
  DrillSetting setting;
  setting.ranks = 2;
  setting.replaces = true;
  setting.has_small_disk = true;
  return setting;
}

// Those that are rehearsed, by name.
std::vector<std::string> Rehearsed(const DrillSetting& setting) {
  std::vector<std::string> names;
  for (const Rehearsal& one : PlanRehearsals(setting)) {
    if (one.left_out.empty()) names.push_back(FaultName(one.fault));
  }
  return names;
}

std::string WhyNot(const DrillSetting& setting, DrillFault fault) {
  for (const Rehearsal& one : PlanRehearsals(setting)) {
    if (one.fault == fault) return one.left_out;
  }
  return "it is not in the plan";
}

TEST(RehearsalTest, NamesAreReadAsTheyAreWritten) {
  for (const DrillFault fault : kAll) EXPECT_EQ(FaultOfName(FaultName(fault)), fault);
  EXPECT_EQ(FaultOfName("flood"), std::nullopt);
}

TEST(RehearsalTest, WhereAllIsThereAllIsRehearsed) {
  EXPECT_THAT(Rehearsed(Complete()),
              ElementsAre("repeat", "kill", "stop", "slow", "drain", "full-disk", "controller"));
}

TEST(RehearsalTest, WhatOthersWouldHaveTooIsLeftOutOnTheirCluster) {
  DrillSetting setting = Complete();
  setting.own_cluster = false;
  EXPECT_THAT(Rehearsed(setting), ElementsAre("repeat", "kill", "stop", "slow"));
}

TEST(RehearsalTest, SaysWhatIsMissing) {
  DrillSetting setting = Complete();
  setting.ranks = 1;
  setting.has_small_disk = false;
  setting.replaces = false;
  EXPECT_THAT(WhyNot(setting, DrillFault::kStop), HasSubstr("--ranks 2"));
  EXPECT_THAT(WhyNot(setting, DrillFault::kFullDisk), HasSubstr("--full-disk DIR"));
  EXPECT_THAT(WhyNot(setting, DrillFault::kDrain), HasSubstr("recovery.max_failures"));
  EXPECT_THAT(WhyNot(setting, DrillFault::kKill), IsEmpty());
}

TEST(RehearsalTest, OnlyLeavesTheRepeatedRunIn) {
  DrillSetting setting = Complete();
  setting.wanted = {DrillFault::kSlow};
  EXPECT_THAT(Rehearsed(setting), ElementsAre("repeat", "slow"));
  EXPECT_EQ(PlanRehearsals(setting).size(), std::size(kAll)) << "the card names the others";
}

TEST(RehearsalTest, FaultsHitALaterStepOfAnotherRankThanTheOneThatIsRead) {
  for (int64_t steps = kLeastDrillSteps; steps < 100; ++steps) {
    EXPECT_GE(StepOfFault(steps), 2);
    EXPECT_LE(StepOfFault(steps) + kSlowSteps, steps - 2);
  }
  EXPECT_EQ(RankOfFault(1), 0);
  EXPECT_EQ(RankOfFault(4), 3);
}

TEST(RehearsalTest, HeldUpStepsLastUntilARankHasStarted) {
  RunTimes reference;
  reference.until_first = absl::Seconds(20);
  for (const int64_t steps : {kLeastDrillSteps, int64_t{24}, int64_t{1000}}) {
    for (const DrillFault fault :
         {DrillFault::kDrain, DrillFault::kFullDisk, DrillFault::kController}) {
      EXPECT_GE(static_cast<double>(steps - 2) * PaceOf(fault, steps, reference),
                absl::Seconds(49));
    }
    EXPECT_EQ(PaceOf(DrillFault::kSlow, steps, reference), absl::ZeroDuration());
  }
}

// Of a job that is not known to train yet, nobody is replaced: it begins anew.
TEST(RehearsalTest, NoRankIsLostBeforeTheJobIsKnownToTrain) {
  RunTimes reference;
  reference.until_first = absl::Seconds(20);
  for (const int64_t steps : {kLeastDrillSteps, int64_t{24}, int64_t{1000}}) {
    for (const DrillFault fault : {DrillFault::kKill, DrillFault::kStop}) {
      const int64_t held = PacedUntil(fault, steps) - kFirstPacedStep;
      EXPECT_GE(static_cast<double>(held) * PaceOf(fault, steps, reference), absl::Seconds(49));
      EXPECT_LE(PacedUntil(fault, steps), StepOfFault(steps)) << "recovery is at full pace";
    }
  }
}

TEST(RehearsalTest, LimitsLeaveTimeForTimeouts) {
  RunRecord reference;
  reference.took = absl::Seconds(30);
  DrillTimeouts timeouts;
  timeouts.collective = absl::Minutes(5);
  timeouts.hang = absl::Minutes(3);
  EXPECT_GT(LimitOf(DrillFault::kStop, 24, reference, timeouts),
            timeouts.hang + timeouts.collective + reference.took);
  EXPECT_GT(LimitOf(DrillFault::kDrain, 24, reference, timeouts),
            LimitOf(DrillFault::kSlow, 24, reference, timeouts));
}

}  // namespace
}  // namespace paceline
