#include "worker/trainer/core/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using What = Transfer::What;

// A rank that trained in generation 1 and shares gradients with all others.
RankPosition At(int64_t step, int rank, int ranks) {
  RankPosition position;
  position.generation = 1;
  position.step = step;
  position.rank = rank;
  position.gradients = {0, ranks};
  position.layout = static_cast<uint64_t>(rank);
  return position;
}

std::vector<RankPosition> AllAt(int64_t step, int ranks) {
  std::vector<RankPosition> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(At(step, rank, ranks));
  return all;
}

std::vector<uint64_t> SameLayouts(size_t ranks) {
  std::vector<uint64_t> layouts;
  for (size_t rank = 0; rank < ranks; ++rank) layouts.push_back(rank);
  return layouts;
}

std::vector<int64_t> Steps(const MeetingDecision& decision) {
  std::vector<int64_t> steps;
  for (const RankPosition& one : decision.positions) steps.push_back(one.step);
  return steps;
}

MeetingDecision Decide(const std::vector<RankPosition>& told,
                       const std::vector<std::vector<int>>& groups = {}) {
  return DecideMeeting(told, SameLayouts(told.size()), groups);
}

TEST(MeetingTest, RanksThatHaveNotTrainedBegin) {
  std::vector<RankPosition> told(3);
  for (RankPosition& one : told) one.step = 70;  // From a checkpoint.
  const MeetingDecision decision = Decide(told);
  EXPECT_TRUE(decision.begins);
  EXPECT_THAT(decision.transfers, IsEmpty());
}

TEST(MeetingTest, ASpareAtTheBeginningGetsWhatWasRestored) {
  std::vector<RankPosition> told(3);
  told[0].step = told[2].step = 70;
  const MeetingDecision decision = Decide(told);
  EXPECT_FALSE(decision.begins);
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 0, 1}));
  EXPECT_THAT(Steps(decision), ElementsAre(70, 70, 70));
}

TEST(MeetingTest, ATrainedStateWinsOverOneThatIsFresh) {
  std::vector<RankPosition> told = AllAt(0, 2);
  told[1] = RankPosition();
  told[1].step = 0;  // As on all ranks at first.
  EXPECT_THAT(Decide(told).transfers, ElementsAre(Transfer{What::kAll, 0, 1}));
}

TEST(MeetingTest, SourcesAreSpreadWhereAllAreAlike) {
  std::vector<RankPosition> told = AllAt(5, 5);
  told[1] = told[3] = told[4] = RankPosition();
  EXPECT_THAT(Decide(told).transfers,
              ElementsAre(Transfer{What::kAll, 0, 1}, Transfer{What::kAll, 2, 3},
                          Transfer{What::kAll, 0, 4}));
}

TEST(MeetingTest, WhoComputedTheStepThatAnotherOneDidTakesItsUpdate) {
  std::vector<RankPosition> told = AllAt(5, 4);
  told[0].step = 6;
  told[1].computed = told[2].computed = true;
  told[3] = RankPosition();
  const MeetingDecision decision = Decide(told);
  EXPECT_THAT(decision.transfers,
              ElementsAre(Transfer{What::kStep, 0, 1}, Transfer{What::kStep, 0, 2},
                          Transfer{What::kAll, 0, 3}));
  EXPECT_THAT(Steps(decision), ElementsAre(6, 6, 6, 6));
}

TEST(MeetingTest, AStepIsTakenFromWhoDidItItself) {
  std::vector<RankPosition> told = AllAt(5, 3);
  told[0].computed = told[1].computed = true;
  told[2].step = 6;
  EXPECT_THAT(Decide(told).transfers,
              ElementsAre(Transfer{What::kStep, 2, 0}, Transfer{What::kStep, 2, 1}));
}

TEST(MeetingTest, WhoStoodByWhileOthersTrainedOnGetsTheirState) {
  std::vector<RankPosition> told = AllAt(9, 3);
  told[0].generation = told[1].generation = 2;
  told[2] = At(4, 5, 6);
  told[2].computed = true;
  const MeetingDecision decision = Decide(told);
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 0, 2}));
  EXPECT_THAT(Steps(decision), ElementsAre(9, 9, 9));
  EXPECT_TRUE(decision.same_groups);
  EXPECT_EQ(decision.alone_below, 0);
}

TEST(MeetingTest, WhoMissedTheEndOfAMeetingHasWhatTheOthersHave) {
  std::vector<RankPosition> told = AllAt(9, 3);
  told[0].generation = told[1].generation = 2;
  EXPECT_THAT(Decide(told).transfers, IsEmpty());
}

TEST(MeetingTest, AStepThatNobodyDidIsRepeated) {
  std::vector<RankPosition> told = AllAt(5, 3);
  told[0].computed = told[1].computed = true;
  const MeetingDecision decision = Decide(told);
  EXPECT_THAT(decision.transfers, IsEmpty());
  EXPECT_THAT(Steps(decision), ElementsAre(5, 5, 5));
  EXPECT_FALSE(decision.positions[0].computed);
}

// Pairs average often, and all four ranks seldom. Each rank keeps its own gradients.
class HsgdMeetingTest : public testing::Test {
 protected:
  HsgdMeetingTest() {
    for (int rank = 0; rank < 4; ++rank) {
      told_.push_back(At(10, rank, 4));
      told_.back().gradients = {rank, 1};
    }
  }
  void Cut(int rank, RankRange exchange) {
    told_[static_cast<size_t>(rank)].exchanged = false;
    told_[static_cast<size_t>(rank)].exchange = exchange;
  }
  MeetingDecision Meet() const { return Decide(told_, {{2, 2}, {4}}); }

  std::vector<RankPosition> told_;
};

TEST_F(HsgdMeetingTest, EachGoesOnFromItsOwnPosition) {
  told_[0].step = told_[1].step = 13;
  const MeetingDecision decision = Meet();
  EXPECT_THAT(decision.transfers, IsEmpty());
  EXPECT_THAT(Steps(decision), ElementsAre(13, 13, 10, 10));
  EXPECT_EQ(decision.alone_below, 0);
}

TEST_F(HsgdMeetingTest, ANewcomerCopiesItsOwnGroup) {
  told_[0].step = told_[1].step = 13;
  told_[3] = RankPosition();
  const MeetingDecision decision = Meet();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 2, 3}));
  EXPECT_THAT(Steps(decision), ElementsAre(13, 13, 10, 10));
}

TEST_F(HsgdMeetingTest, AGroupThatIsLostCopiesTheMostAdvancedRankOfTheNextLargerOne) {
  told_[1].step = 12;
  told_[2] = told_[3] = RankPosition();
  EXPECT_THAT(Meet().transfers,
              ElementsAre(Transfer{What::kAll, 1, 2}, Transfer{What::kAll, 1, 3}));
}

TEST_F(HsgdMeetingTest, WhoWasCutOffTakesTheMeanOfAMemberThatGotThrough) {
  Cut(2, {2, 2});
  told_[3].step = 11;
  const MeetingDecision decision = Meet();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kMean, 3, 2}));
  EXPECT_TRUE(decision.positions[2].exchanged);
}

TEST_F(HsgdMeetingTest, AnExchangeThatNobodyGotThroughIsRepeatedWithTheNewcomer) {
  Cut(2, {2, 2});
  told_[3] = RankPosition();
  told_[0].step = 20;  // In the other group.
  const MeetingDecision decision = Meet();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 2, 3}));
  EXPECT_FALSE(decision.positions[2].exchanged);
  EXPECT_FALSE(decision.positions[3].exchanged);
}

TEST_F(HsgdMeetingTest, TheNewcomerCopiesWhatTheOtherOneHasAfterItsMean) {
  Cut(0, {0, 4});
  told_[1] = RankPosition();
  told_[2].step = 11;
  const MeetingDecision decision = Meet();
  EXPECT_THAT(decision.transfers,
              ElementsAre(Transfer{What::kMean, 2, 0}, Transfer{What::kAll, 0, 1}));
  EXPECT_TRUE(decision.positions[1].exchanged);
}

TEST_F(HsgdMeetingTest, WhoseGroupHasGoneOnWithoutItTakesAllOfIt) {
  Cut(2, {2, 2});
  told_[3].step = 11;
  told_[3].generation = 2;
  const MeetingDecision decision = Meet();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 3, 2}));
  EXPECT_TRUE(decision.positions[2].exchanged);
}

TEST_F(HsgdMeetingTest, OtherGroupsThatAreAheadLeaveNobodyBehind) {
  told_[0].step = told_[1].step = 13;
  told_[0].generation = told_[1].generation = 2;
  EXPECT_THAT(Meet().transfers, IsEmpty());
}

TEST_F(HsgdMeetingTest, WithOtherGroupsAllGoOnAloneUpToTheMostAdvancedStep) {
  told_[0].step = 13;
  Cut(1, {0, 2});
  told_.pop_back();
  const MeetingDecision decision = DecideMeeting(told_, {7, 8, 9}, {{2, 1}, {3}});
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kMean, 0, 1}));
  EXPECT_FALSE(decision.same_groups);
  EXPECT_EQ(decision.alone_below, 13);
  Cut(2, {2, 2});
  const MeetingDecision dropped = DecideMeeting(told_, {7, 8, 9}, {{2, 1}, {3}});
  EXPECT_TRUE(dropped.positions[2].exchanged) << "nobody can make up for it";
}

TEST_F(HsgdMeetingTest, ALossWhileSomeGoOnAloneLeavesThemSo) {
  for (RankPosition& one : told_) one.alone_below = 12;
  EXPECT_EQ(Meet().alone_below, 12);
}

TEST_F(HsgdMeetingTest, TheMeanAfterTheLastStepIsTakenFromWhoHasIt) {
  told_[1].final_mean = true;
  const MeetingDecision decision = Meet();
  EXPECT_THAT(decision.transfers,
              ElementsAre(Transfer{What::kMean, 1, 0}, Transfer{What::kMean, 1, 2},
                          Transfer{What::kMean, 1, 3}));
  for (const RankPosition& one : decision.positions) EXPECT_TRUE(one.final_mean);
}

TEST(MeetingTest, AnEvaluationThatOnlySomeFinishedIsRepeated) {
  std::vector<RankPosition> told = AllAt(5, 3);
  told[0].evaluated = 5;
  MeetingDecision decision = Decide(told);
  EXPECT_NE(decision.positions[0].evaluated, 5);
  for (RankPosition& one : told) one.evaluated = 5;
  decision = Decide(told);
  EXPECT_EQ(decision.positions[0].evaluated, 5);
}

TEST(MeetingTest, AnEvaluationBehindWhichSomebodyHasTrainedOnIsOver) {
  std::vector<RankPosition> told = AllAt(5, 3);
  told[0].evaluated = 5;
  told[0].step = 7;
  EXPECT_EQ(Decide(told).positions[1].evaluated, 5);
}

}  // namespace
}  // namespace paceline
