#include "slipstream/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::ElementsAre;
using Takes = SlipstreamDecision::Takes;

RoundState At(int64_t generation, int64_t round, int64_t round_generation) {
  RoundState state;
  state.generation = generation;
  state.round = round;
  state.round_generation = round_generation;
  return state;
}

TEST(SlipstreamRendezvousTest, RanksThatHaveNeverTrainedBegin) {
  const SlipstreamDecision decision = DecideSlipstreamRendezvous({std::nullopt, std::nullopt});
  EXPECT_FALSE(decision.source.has_value());
  EXPECT_THAT(decision.takes, ElementsAre(Takes::kNothing, Takes::kNothing));
}

TEST(SlipstreamRendezvousTest, ANewcomerTakesAll) {
  const SlipstreamDecision decision =
      DecideSlipstreamRendezvous({std::nullopt, At(1, 7, 1), At(1, 7, 1)});
  EXPECT_EQ(decision.source, 1);
  EXPECT_THAT(decision.takes, ElementsAre(Takes::kAll, Takes::kNothing, Takes::kNothing));
}

TEST(SlipstreamRendezvousTest, WhoWasCutOffInARoundTakesItsModelAndKeepsItsWork) {
  const RoundState cut_off = At(1, 7, 1);
  const RoundState finished = At(1, 8, 1);
  const SlipstreamDecision decision = DecideSlipstreamRendezvous({cut_off, finished, finished});
  EXPECT_EQ(decision.source, 1);
  EXPECT_THAT(decision.takes, ElementsAre(Takes::kModel, Takes::kNothing, Takes::kNothing));
  EXPECT_EQ(MissedRounds(cut_off, finished), Missed::kItsRound);
}

TEST(SlipstreamRendezvousTest, ARendezvousThatFailedForSomeIsMadeAgain) {
  // Rank 0 took part in the failed one, the others did not; no round was made since.
  const RoundState first = At(2, 8, 1);
  const RoundState cut_off = At(1, 7, 1);
  const SlipstreamDecision decision = DecideSlipstreamRendezvous({first, At(1, 8, 1), cut_off});
  EXPECT_EQ(decision.source, 0);
  EXPECT_THAT(decision.takes, ElementsAre(Takes::kNothing, Takes::kNothing, Takes::kModel));
  EXPECT_EQ(MissedRounds(cut_off, first), Missed::kItsRound);
}

TEST(SlipstreamRendezvousTest, ARankThatWasLeftBehindIsNoSourceHoweverManyRoundsItHas) {
  // It finished a round that the others lost, and they went on without it.
  const RoundState left = At(1, 9, 1);
  for (const RoundState& others : {At(2, 8, 1), At(2, 9, 2), At(2, 10, 2)}) {
    const SlipstreamDecision decision = DecideSlipstreamRendezvous({left, others});
    EXPECT_EQ(decision.source, 1);
    EXPECT_THAT(decision.takes, ElementsAre(Takes::kModel, Takes::kNothing));
    EXPECT_EQ(MissedRounds(left, others), Missed::kMore);
  }
}

}  // namespace
}  // namespace paceline
