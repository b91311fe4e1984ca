#include "worker/trainer/core/rendezvous.h"

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

std::vector<int64_t> Steps(const RendezvousDecision& decision) {
  std::vector<int64_t> steps;
  for (const RankPosition& one : decision.positions) steps.push_back(one.step);
  return steps;
}

RendezvousDecision Decide(const std::vector<RankPosition>& reported,
                          const std::vector<std::vector<int>>& groups = {}) {
  return DecideRendezvous(reported, SameLayouts(reported.size()), groups);
}

TEST(RendezvousTest, RanksThatHaveNotTrainedBegin) {
  std::vector<RankPosition> reported(3);
  for (RankPosition& one : reported) one.step = 70;  // From a checkpoint.
  const RendezvousDecision decision = Decide(reported);
  EXPECT_TRUE(decision.begins);
  EXPECT_THAT(decision.transfers, IsEmpty());
}

TEST(RendezvousTest, ASpareAtTheBeginningGetsWhatWasRestored) {
  std::vector<RankPosition> reported(3);
  reported[0].step = reported[2].step = 70;
  const RendezvousDecision decision = Decide(reported);
  EXPECT_FALSE(decision.begins);
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 0, 1}));
  EXPECT_THAT(Steps(decision), ElementsAre(70, 70, 70));
}

TEST(RendezvousTest, ATrainedStateWinsOverOneThatIsFresh) {
  std::vector<RankPosition> reported = AllAt(0, 2);
  reported[1] = RankPosition();
  reported[1].step = 0;  // As on all ranks at first.
  EXPECT_THAT(Decide(reported).transfers, ElementsAre(Transfer{What::kAll, 0, 1}));
}

TEST(RendezvousTest, SourcesAreSpreadWhereAllAreAlike) {
  std::vector<RankPosition> reported = AllAt(5, 5);
  reported[1] = reported[3] = reported[4] = RankPosition();
  EXPECT_THAT(Decide(reported).transfers,
              ElementsAre(Transfer{What::kAll, 0, 1}, Transfer{What::kAll, 2, 3},
                          Transfer{What::kAll, 0, 4}));
}

TEST(RendezvousTest, WhoComputedTheStepThatAnotherOneDidTakesItsUpdate) {
  std::vector<RankPosition> reported = AllAt(5, 4);
  reported[0].step = 6;
  reported[1].computed = reported[2].computed = true;
  reported[3] = RankPosition();
  const RendezvousDecision decision = Decide(reported);
  EXPECT_THAT(decision.transfers,
              ElementsAre(Transfer{What::kStep, 0, 1}, Transfer{What::kStep, 0, 2},
                          Transfer{What::kAll, 0, 3}));
  EXPECT_THAT(Steps(decision), ElementsAre(6, 6, 6, 6));
}

TEST(RendezvousTest, AStepIsTakenFromWhoDidItItself) {
  std::vector<RankPosition> reported = AllAt(5, 3);
  reported[0].computed = reported[1].computed = true;
  reported[2].step = 6;
  EXPECT_THAT(Decide(reported).transfers,
              ElementsAre(Transfer{What::kStep, 2, 0}, Transfer{What::kStep, 2, 1}));
}

TEST(RendezvousTest, WhoStoodByWhileOthersTrainedOnGetsTheirState) {
  std::vector<RankPosition> reported = AllAt(9, 3);
  reported[0].generation = reported[1].generation = 2;
  reported[2] = At(4, 5, 6);
  reported[2].computed = true;
  const RendezvousDecision decision = Decide(reported);
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 0, 2}));
  EXPECT_THAT(Steps(decision), ElementsAre(9, 9, 9));
  EXPECT_TRUE(decision.same_groups);
  EXPECT_EQ(decision.alone_below, 0);
}

TEST(RendezvousTest, WhoMissedTheEndOfARendezvousHasWhatTheOthersHave) {
  std::vector<RankPosition> reported = AllAt(9, 3);
  reported[0].generation = reported[1].generation = 2;
  EXPECT_THAT(Decide(reported).transfers, IsEmpty());
}

TEST(RendezvousTest, AStepThatNobodyDidIsRepeated) {
  std::vector<RankPosition> reported = AllAt(5, 3);
  reported[0].computed = reported[1].computed = true;
  const RendezvousDecision decision = Decide(reported);
  EXPECT_THAT(decision.transfers, IsEmpty());
  EXPECT_THAT(Steps(decision), ElementsAre(5, 5, 5));
  EXPECT_FALSE(decision.positions[0].computed);
}

// Pairs average often, and all four ranks seldom. Each rank keeps its own gradients.
class HsgdRendezvousTest : public testing::Test {
 protected:
  HsgdRendezvousTest() {
    for (int rank = 0; rank < 4; ++rank) {
      reported_.push_back(At(10, rank, 4));
      reported_.back().gradients = {rank, 1};
    }
  }
  void Cut(int rank, RankRange exchange) {
    reported_[static_cast<size_t>(rank)].exchanged = false;
    reported_[static_cast<size_t>(rank)].exchange = exchange;
  }
  RendezvousDecision RunRendezvous() const { return Decide(reported_, {{2, 2}, {4}}); }

  std::vector<RankPosition> reported_;
};

TEST_F(HsgdRendezvousTest, EachGoesOnFromItsOwnPosition) {
  reported_[0].step = reported_[1].step = 13;
  const RendezvousDecision decision = RunRendezvous();
  EXPECT_THAT(decision.transfers, IsEmpty());
  EXPECT_THAT(Steps(decision), ElementsAre(13, 13, 10, 10));
  EXPECT_EQ(decision.alone_below, 0);
}

TEST_F(HsgdRendezvousTest, ANewcomerCopiesItsOwnGroup) {
  reported_[0].step = reported_[1].step = 13;
  reported_[3] = RankPosition();
  const RendezvousDecision decision = RunRendezvous();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 2, 3}));
  EXPECT_THAT(Steps(decision), ElementsAre(13, 13, 10, 10));
}

TEST_F(HsgdRendezvousTest, AGroupThatIsLostCopiesTheMostAdvancedRankOfTheNextLargerOne) {
  reported_[1].step = 12;
  reported_[2] = reported_[3] = RankPosition();
  EXPECT_THAT(RunRendezvous().transfers,
              ElementsAre(Transfer{What::kAll, 1, 2}, Transfer{What::kAll, 1, 3}));
}

TEST_F(HsgdRendezvousTest, WhoWasCutOffTakesTheMeanOfAMemberThatGotThrough) {
  Cut(2, {2, 2});
  reported_[3].step = 11;
  const RendezvousDecision decision = RunRendezvous();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kMean, 3, 2}));
  EXPECT_TRUE(decision.positions[2].exchanged);
}

TEST_F(HsgdRendezvousTest, AnExchangeThatNobodyGotThroughIsRepeatedWithTheNewcomer) {
  Cut(2, {2, 2});
  reported_[3] = RankPosition();
  reported_[0].step = 20;  // In the other group.
  const RendezvousDecision decision = RunRendezvous();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 2, 3}));
  EXPECT_FALSE(decision.positions[2].exchanged);
  EXPECT_FALSE(decision.positions[3].exchanged);
}

TEST_F(HsgdRendezvousTest, TheNewcomerCopiesWhatTheOtherOneHasAfterItsMean) {
  Cut(0, {0, 4});
  reported_[1] = RankPosition();
  reported_[2].step = 11;
  const RendezvousDecision decision = RunRendezvous();
  EXPECT_THAT(decision.transfers,
              ElementsAre(Transfer{What::kMean, 2, 0}, Transfer{What::kAll, 0, 1}));
  EXPECT_TRUE(decision.positions[1].exchanged);
}

TEST_F(HsgdRendezvousTest, WhoseGroupHasGoneOnWithoutItTakesAllOfIt) {
  Cut(2, {2, 2});
  reported_[3].step = 11;
  reported_[3].generation = 2;
  const RendezvousDecision decision = RunRendezvous();
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kAll, 3, 2}));
  EXPECT_TRUE(decision.positions[2].exchanged);
}

TEST_F(HsgdRendezvousTest, OtherGroupsThatAreAheadLeaveNobodyBehind) {
  reported_[0].step = reported_[1].step = 13;
  reported_[0].generation = reported_[1].generation = 2;
  EXPECT_THAT(RunRendezvous().transfers, IsEmpty());
}

TEST_F(HsgdRendezvousTest, WithOtherGroupsAllGoOnAloneUpToTheMostAdvancedStep) {
  reported_[0].step = 13;
  Cut(1, {0, 2});
  reported_.pop_back();
  const RendezvousDecision decision = DecideRendezvous(reported_, {7, 8, 9}, {{2, 1}, {3}});
  EXPECT_THAT(decision.transfers, ElementsAre(Transfer{What::kMean, 0, 1}));
  EXPECT_FALSE(decision.same_groups);
  EXPECT_EQ(decision.alone_below, 13);
  Cut(2, {2, 2});
  const RendezvousDecision dropped = DecideRendezvous(reported_, {7, 8, 9}, {{2, 1}, {3}});
  EXPECT_TRUE(dropped.positions[2].exchanged) << "nobody can make up for it";
}

TEST_F(HsgdRendezvousTest, ALossWhileSomeGoOnAloneLeavesThemSo) {
  for (RankPosition& one : reported_) one.alone_below = 12;
  EXPECT_EQ(RunRendezvous().alone_below, 12);
}

TEST_F(HsgdRendezvousTest, TheMeanAfterTheLastStepIsTakenFromWhoHasIt) {
  reported_[1].final_mean = true;
  const RendezvousDecision decision = RunRendezvous();
  EXPECT_THAT(decision.transfers,
              ElementsAre(Transfer{What::kMean, 1, 0}, Transfer{What::kMean, 1, 2},
                          Transfer{What::kMean, 1, 3}));
  for (const RankPosition& one : decision.positions) EXPECT_TRUE(one.final_mean);
}

TEST(RendezvousTest, AnEvaluationThatOnlySomeFinishedIsRepeated) {
  std::vector<RankPosition> reported = AllAt(5, 3);
  reported[0].evaluated = 5;
  RendezvousDecision decision = Decide(reported);
  EXPECT_NE(decision.positions[0].evaluated, 5);
  for (RankPosition& one : reported) one.evaluated = 5;
  decision = Decide(reported);
  EXPECT_EQ(decision.positions[0].evaluated, 5);
}

TEST(RendezvousTest, AnEvaluationBehindWhichSomebodyHasTrainedOnIsOver) {
  std::vector<RankPosition> reported = AllAt(5, 3);
  reported[0].evaluated = 5;
  reported[0].step = 7;
  EXPECT_EQ(Decide(reported).positions[1].evaluated, 5);
}

}  // namespace
}  // namespace paceline
