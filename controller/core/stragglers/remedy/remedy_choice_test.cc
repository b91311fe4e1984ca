#include "controller/core/stragglers/remedy/remedy_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(10);
const absl::Duration kPause = absl::Hours(1);

class RemedyChoiceTest : public ::testing::Test {
 protected:
  RemedyChoiceTest() {
    straggler_.verdict.kind = VerdictKind::kPersistent;
    straggler_.verdict.rank = 5;
    straggler_.verdict.node = 2;
    straggler_.verdict.lost_share = 0.25;
    straggler_.verdict.episodes = 1;
    straggler_.node = NodeName("n2");
    facts_.running = true;
    facts_.recovers = true;
    facts_.has_ladder = true;
    facts_.ranks = 8;
    facts_.min_ranks = 4;
    facts_.steps_left = 10000;
    facts_.checked_spares = 1;
    there_ = {1, 1, ""};
    facts_.node = [this](const NodeName&) { return there_; };
  }

  RemedyChoice Weigh() const {
    return WeighRemedies(straggler_, facts_, before_, {}, decisions_, kNow, kPause);
  }
  std::vector<RemedyKind> Kinds() const {
    std::vector<RemedyKind> kinds;
    for (const RemedyOption& option : Weigh().options) kinds.push_back(option.kind);
    return kinds;
  }
  void Ended(RemedyKind kind, DecisionState state, absl::Duration ago, int rank = 5) {
    RemedyDecision decision;
    decision.id = static_cast<int64_t>(decisions_.size()) + 1;
    decision.kind = kind;
    decision.state = state;
    decision.rank = rank;
    decision.node = NodeName(rank == 5 ? "n2" : "n9");
    decision.since = kNow - ago;
    decisions_.push_back(decision);
  }

  StragglerCase straggler_;
  RemedyFacts facts_;
  RemedyNode there_;
  StepMean before_{0.4, 0};
  std::vector<RemedyDecision> decisions_;
};

TEST_F(RemedyChoiceTest, SpareIsTheCheapest) {
  const RemedyChoice choice = Weigh();
  EXPECT_DOUBLE_EQ(choice.nothing_s, 0.25 * 0.4 * 10000);
  ASSERT_EQ(choice.options.size(), 3u);
  EXPECT_EQ(choice.options[0].kind, RemedyKind::kHotSwap);
  EXPECT_DOUBLE_EQ(choice.options[0].cost_s, 2 * 0.4);
  EXPECT_DOUBLE_EQ(choice.options[0].total_s, 2 * 0.4);
  EXPECT_DOUBLE_EQ(choice.options[0].step_s, 0.3);
}

TEST_F(RemedyChoiceTest, ShrinkingLosesARanksShareForEver) {
  facts_.checked_spares = 0;
  there_.slots_elsewhere = 0;
  const RemedyChoice choice = Weigh();
  ASSERT_EQ(choice.options.size(), 1u);
  EXPECT_EQ(choice.options[0].kind, RemedyKind::kShrink);
  EXPECT_DOUBLE_EQ(choice.options[0].cost_s, 5);
  EXPECT_DOUBLE_EQ(choice.options[0].step_s, 0.3 * 8 / 7);
  EXPECT_DOUBLE_EQ(choice.options[0].total_s, 5 + 0.3 / 7 * 10000);
}

TEST_F(RemedyChoiceTest, ColdStartCostsMoreThanASpareAndLessThanARankForEver) {
  facts_.checked_spares = 0;
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kDrain, RemedyKind::kShrink));
  EXPECT_DOUBLE_EQ(Weigh().options[0].cost_s, 30);
  facts_.steps_left = 100;  // For so short a time fewer ranks are cheaper.
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kShrink, RemedyKind::kDrain));
}

TEST_F(RemedyChoiceTest, EachNeedsItsMeans) {
  facts_.checked_spares = 0;
  facts_.min_ranks = 8;
  there_.slots_elsewhere = 0;
  EXPECT_THAT(Kinds(), IsEmpty());
  EXPECT_THAT(Weigh().obstacles, HasSubstr("no checked spare stands by; no spares or free slots"));
  there_.slots_elsewhere = 1;
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kDrain));
  facts_.min_ranks = 7;
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kDrain, RemedyKind::kShrink));
  facts_.min_ranks = 0;
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kDrain));
  facts_.recovers = false;
  EXPECT_THAT(Kinds(), IsEmpty());
  facts_.recovers = true;
  facts_.running = false;
  EXPECT_THAT(Kinds(), IsEmpty());
}

TEST_F(RemedyChoiceTest, DrainNeedsRoomForAllRanksOfTheNode) {
  facts_.checked_spares = 1;
  there_ = {4, 2, ""};
  straggler_.verdict.kind = VerdictKind::kNode;
  straggler_.verdict.rank = -1;
  EXPECT_THAT(Kinds(), IsEmpty());
  EXPECT_THAT(Weigh().obstacles, HasSubstr("4 ranks on n2"));
  there_.slots_elsewhere = 3;
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kDrain));
  EXPECT_DOUBLE_EQ(Weigh().options[0].cost_s, 30);
  facts_.checked_spares = 4;
  EXPECT_DOUBLE_EQ(Weigh().options[0].cost_s, 0.8) << "all move to spares";
}

TEST_F(RemedyChoiceTest, NodeThatIsSlowAgainAndAgainIsDrained) {
  straggler_.verdict.episodes = 2;
  EXPECT_EQ(Kinds().front(), RemedyKind::kHotSwap);
  straggler_.verdict.episodes = 3;
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kDrain));
  Ended(RemedyKind::kDrain, DecisionState::kFailed, absl::Minutes(5));
  EXPECT_EQ(Kinds().front(), RemedyKind::kHotSwap) << "better the rank alone than nothing";
}

TEST_F(RemedyChoiceTest, RanksOfANodeAreSwappedTogetherOrNotAtAll) {
  there_ = {2, 0, ""};
  EXPECT_THAT(Kinds(), IsEmpty());
  EXPECT_THAT(Weigh().obstacles, HasSubstr("too few checked spares stand by for the 2 ranks"));
  EXPECT_THAT(Weigh().obstacles, HasSubstr("other ranks are on n2, too"));
  facts_.checked_spares = 2;
  EXPECT_EQ(Kinds().front(), RemedyKind::kHotSwap);
}

TEST_F(RemedyChoiceTest, NobodyIsReplacedForItsNetworkOrItsWork) {
  for (const auto cause :
       {StragglerCause::kCompute, StragglerCause::kData, StragglerCause::kHostPause}) {
    straggler_.verdict.cause = cause;
    EXPECT_EQ(Kinds().front(), RemedyKind::kHotSwap);
  }
  straggler_.verdict.cause = StragglerCause::kCommunication;
  EXPECT_THAT(Kinds(), IsEmpty());
  EXPECT_THAT(Weigh().obstacles, HasSubstr("network"));
  straggler_.verdict.cause = StragglerCause::kImbalance;
  EXPECT_THAT(Kinds(), IsEmpty());
}

TEST_F(RemedyChoiceTest, WhatHasFailedIsNotRepeatedForAWhile) {
  Ended(RemedyKind::kHotSwap, DecisionState::kFailed, absl::Minutes(59));
  EXPECT_THAT(Kinds(), ElementsAre(RemedyKind::kDrain, RemedyKind::kShrink));
  EXPECT_THAT(Weigh().obstacles, HasSubstr("HOT_SWAP was tried in vain"));
  decisions_[0].since = kNow - kPause;
  EXPECT_EQ(Kinds().front(), RemedyKind::kHotSwap);
}

TEST_F(RemedyChoiceTest, RankThatWasReplacedInVainIsNotReplacedOtherwise) {
  Ended(RemedyKind::kHotSwap, DecisionState::kDidNotHelp, absl::Minutes(5));
  EXPECT_THAT(Kinds(), IsEmpty());
  straggler_.node = NodeName("n7");  // The rank's present node.
  EXPECT_THAT(Kinds(), IsEmpty());
  straggler_.verdict.rank = 6;
  EXPECT_EQ(Kinds().front(), RemedyKind::kHotSwap) << "another rank on another node";
  straggler_.node = NodeName("n2");
  EXPECT_THAT(Kinds(), IsEmpty()) << "the node";
}

TEST_F(RemedyChoiceTest, OtherEndsBlockNothing) {
  for (const auto state : {DecisionState::kHelped, DecisionState::kUnchecked,
                           DecisionState::kWithdrawn, DecisionState::kDone}) {
    Ended(RemedyKind::kHotSwap, state, absl::Minutes(1));
  }
  Ended(RemedyKind::kHotSwap, DecisionState::kFailed, absl::Minutes(1), /*rank=*/1);
  EXPECT_EQ(Kinds().front(), RemedyKind::kHotSwap);
  Ended(RemedyKind::kDrain, DecisionState::kFailed, absl::Minutes(1));
  decisions_.back().undoes = 3;
  EXPECT_EQ(Kinds()[1], RemedyKind::kDrain) << "the undoing of a drain is none";
}

TEST_F(RemedyChoiceTest, LaddersAreBlockedForTheJob) {
  Ended(RemedyKind::kHotSwap, DecisionState::kDidNotHelp, absl::Minutes(1));
  EXPECT_FALSE(IsBlocked(RemedyKind::kLadder, -1, NodeName(), decisions_, kNow, kPause));
  Ended(RemedyKind::kLadder, DecisionState::kDidNotHelp, absl::Minutes(1), -1);
  EXPECT_TRUE(IsBlocked(RemedyKind::kLadder, -1, NodeName(), decisions_, kNow, kPause));
}

TEST_F(RemedyChoiceTest, CostsAreThoseOfTheLatestThatWerePaid) {
  const auto cost = [&] {
    return CostOf(RemedyKind::kHotSwap, false, before_.seconds, {}, decisions_);
  };
  EXPECT_DOUBLE_EQ(cost(), 0.8);
  for (int i = 0; i < 7; ++i) {
    Ended(RemedyKind::kHotSwap, DecisionState::kHelped, absl::Minutes(1));
    decisions_.back().paid_s = i < 2 ? 100 : 3;
  }
  Ended(RemedyKind::kHotSwap, DecisionState::kHelped, absl::Minutes(1));  // Its cost is not known.
  Ended(RemedyKind::kDrain, DecisionState::kHelped, absl::Minutes(1));
  decisions_.back().paid_s = 50;
  EXPECT_DOUBLE_EQ(cost(), 3);
  EXPECT_DOUBLE_EQ(CostOf(RemedyKind::kLadder, false, 0.4, {}, decisions_), 0.8);
}

TEST_F(RemedyChoiceTest, LaddersNeedOneThatCanChange) {
  EXPECT_EQ(WhyImpossible(RemedyKind::kLadder, false, NodeName(), facts_), "");
  facts_.plan_pending = true;
  EXPECT_THAT(WhyImpossible(RemedyKind::kLadder, false, NodeName(), facts_), HasSubstr("taken up"));
  facts_.has_ladder = false;
  EXPECT_THAT(WhyImpossible(RemedyKind::kLadder, false, NodeName(), facts_),
              HasSubstr("no ladder"));
  EXPECT_EQ(WhyImpossible(RemedyKind::kDrain, /*undo=*/true, NodeName("n2"), facts_), "");
}

TEST(RemedyTest, WordsForPeople) {
  RemedyDecision decision;
  decision.kind = RemedyKind::kHotSwap;
  decision.rank = 5;
  decision.node = NodeName("n2");
  EXPECT_EQ(DescribeRemedy(decision), "hot-swap of rank 5 on n2");
  decision.kind = RemedyKind::kDrain;
  EXPECT_EQ(DescribeRemedy(decision), "drain of n2");
  decision.undoes = 3;
  EXPECT_EQ(DescribeRemedy(decision), "undo of decision 3: resume of n2");
  decision.kind = RemedyKind::kLadder;
  EXPECT_EQ(DescribeRemedy(decision), "undo of decision 3: ladder synchronous");
  EXPECT_STREQ(NameOf(RemedyKind::kAskPerson), "ASK_PERSON");
  EXPECT_STREQ(NameOf(DecisionState::kDidNotHelp), "DID_NOT_HELP");
}

}  // namespace
}  // namespace paceline
