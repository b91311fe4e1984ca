// What a rank does when an update is bad, models differ, or a generation breaks off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "slipstream/rank.h"
#include "slipstream/rank_fixture.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Compute = ComputeOrder::Kind;
using Copy = ComputeOrder::Copy;
using Comm = CommOrder::Kind;
using Fill = CommOrder::Fill;
using Mode = SlipstreamMode;
constexpr double kBad = std::numeric_limits<double>::infinity();

using RankFailureTest = RankTest;

TEST_F(RankTest, AfterABadGradientTheModelIsLoadedAnew) {
  Start(Mode::kSync, /*stops_at_bad_update=*/false);
  Step(kBad);
  EXPECT_EQ(CopyNext(), Copy::kLoad) << "its running statistics may be bad as well";
}

TEST_F(RankFailureTest, ABadUpdateStopsAllAndNamesTheRank) {
  Start(Mode::kFree);
  Step();
  CopyNext();
  Round(Steps(1), /*squared=*/kBad);
  EXPECT_THAT(rank_->fault(), HasSubstr("rank 0: its update is not finite"));
  EXPECT_THAT(rank_->fault_ranks(), ElementsAre(0));
  EXPECT_EQ(NextComm().kind, Comm::kEnd);
}

// A rank that reported its fault and ended before others knew would count as lost.
TEST_F(RankFailureTest, ARankThatCannotGoOnWaitsUntilAllKnow) {
  for (const Mode mode : {Mode::kSync, Mode::kDrop, Mode::kFree, Mode::kPause}) {
    Start(mode);
    Step();
    rank_->SetFault("the loss is not finite");
    rank_->SetFault("something that follows from it");
    for (int i = 0; i < 3; ++i) {
      const ComputeOrder order = NextCompute();
      EXPECT_EQ(order.kind, Compute::kWait);
      EXPECT_EQ(order.wait, ComputeOrder::Wait::kRound);
    }
    EXPECT_THAT(Round(), ElementsAre(Comm::kExchange)) << "at once, and nothing is sent";
    EXPECT_THAT(rank_->fault(), HasSubstr("rank 0: the loss is not finite"));
    while (NextCompute().kind == Compute::kCopy) rank_->OnCopied(absl::ZeroDuration());
    EXPECT_EQ(NextCompute().kind, Compute::kEnd);
  }
}

TEST_F(RankFailureTest, ARankThatCannotGoOnComesToTheStopThatAllAreAt) {
  Start(Mode::kSync);
  rank_->OrderSave(1);
  Step();
  RoundHeader other = Ready();
  other.save_ahead = 1;
  Round(other);
  rank_->SetFault("the loss is not finite");
  EXPECT_EQ(CopyNext(), Copy::kLoad);
  EXPECT_EQ(NextCompute().kind, Compute::kStop);
  rank_->OnStopped(now_);
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  Round(Ready());
  EXPECT_THAT(rank_->fault_ranks(), ElementsAre(0));
}

TEST_F(RankFailureTest, AFaultThatABreakKeptBackIsToldInTheNextGeneration) {
  Start(Mode::kFree);
  Step();
  rank_->SetFault("the loss is not finite");
  rank_->Rejoin(1, ForGeneration(rank_->state(), 2, 2), now_);
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  EXPECT_EQ(NextComm().kind, Comm::kExchange);
}

TEST_F(RankFailureTest, ABadUpdateIsLeftOutAndTheRankTakesTheCanonicalModel) {
  Start(Mode::kFree, /*stops_at_bad_update=*/false);
  Step();
  CopyNext();
  Round(Steps(1), /*squared=*/kBad);
  EXPECT_EQ(rank_->sums().excluded_rank, 0);
  EXPECT_EQ(fill_, Fill::kZeros);
  EXPECT_EQ(rank_->state().total, RankSteps(2, 0, 1)) << "the other rank's";
  EXPECT_EQ(CopyNext(), Copy::kReset);
  EXPECT_EQ(rank_->lost_updates(), 1);
  Step();
  CopyNext();
  Round(Steps(1));
  EXPECT_EQ(rank_->sums().excluded, 0);
  EXPECT_EQ(rank_->sent_updates(), 1);
}

TEST_F(RankFailureTest, WithABadUpdateGoesTheStateOfTheOptimizer) {
  Start(Mode::kFree, /*stops_at_bad_update=*/false);
  EXPECT_FALSE(NextCompute().resets_optimizer) << "at the beginning it may be of a checkpoint";
  rank_->OnCopied(absl::ZeroDuration());
  Step();
  CopyNext();
  Round(Steps(1), /*squared=*/kBad);
  const ComputeOrder order = NextCompute();
  EXPECT_EQ(order.copy, Copy::kReset);
  EXPECT_TRUE(order.resets_optimizer);
}

TEST_F(RankFailureTest, TheMeanOfTheOptimizersStateIsOfSoundRanks) {
  for (const int64_t steps : {1, 0}) {
    Start(Mode::kFree, /*stops_at_bad_update=*/false);
    SlipstreamPlan plan;
    plan.version = 2;
    plan.mode = Mode::kDrop;
    rank_->Prepare(plan);
    Step();
    CopyNext();
    ASSERT_EQ(NextCompute().kind, Compute::kUpdate);
    RoundHeader other = Steps(1);
    other.plan_ahead = 1;
    Round(other);
    ASSERT_TRUE(rank_->state().settles);
    rank_->OnStepped(kTestStep, 1);
    CopyNext();
    Round(Steps(steps), /*squared=*/kBad);
    ASSERT_TRUE(outcome_->averages_state);
    EXPECT_EQ(payload_.state, 1);
    EXPECT_FALSE(payload_.has_state);
  }
}

TEST_F(RankFailureTest, WhoHasTheMeanOfTheOptimizersStateKeepsIt) {
  RoundState state = State(Mode::kPause);
  state.plan.averages_state = true;
  SlipstreamRank::Options options;
  options.stops_at_bad_update = false;
  rank_.emplace(options, state, now_);
  Step();
  CopyNext();
  Round(Steps(1), /*squared=*/kBad);
  EXPECT_EQ(payload_.state, 1);
  const ComputeOrder order = NextCompute();
  EXPECT_EQ(order.copy, Copy::kReset);
  EXPECT_FALSE(order.resets_optimizer);
}

// Its gradient becomes ready when the header was sent but has not come back.
TEST_F(RankFailureTest, ABadGradientIsToldInTheNextHeaderIfNotInThisOne) {
  ranks_ = 3;
  Start(Mode::kDrop, /*stops_at_bad_update=*/false);
  CopyNext();
  ASSERT_EQ(NextCompute().kind, Compute::kGradient);
  ASSERT_EQ(NextComm().kind, Comm::kExchange);
  std::vector<double> sums = rank_->Numbers(now_);
  for (int other : {1, 2}) {
    const std::vector<double> numbers = HeaderNumbers(Ready(), other);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
  }
  rank_->OnGradient(kBad, kTestStep, 1);
  rank_->OnExchanged(sums, now_);
  Round();
  EXPECT_EQ(rank_->sums().excluded, 0);
  Round(Ready());
  EXPECT_EQ(rank_->sums().excluded_rank, 0);
  Round(Ready());
  EXPECT_EQ(rank_->sums().excluded, 0);
}

TEST_F(RankFailureTest, AFaultOfAnotherRankEndsThisOne) {
  Start(Mode::kDrop);
  RoundHeader other;
  other.fault = true;
  Round(other);
  EXPECT_THAT(rank_->fault_ranks(), ElementsAre(1));
  EXPECT_EQ(CopyNext(), Copy::kLoad);
  EXPECT_EQ(NextCompute().kind, Compute::kEnd);
}

TEST_F(RankFailureTest, HashesThatDifferAreFoundByARollCall) {
  Start(Mode::kFree);
  for (int i = 0; i < 32; ++i) Round();
  ASSERT_EQ(NextComm().kind, Comm::kHash);
  rank_->OnHashed(7);
  now_ += absl::Seconds(1);
  ASSERT_EQ(NextComm().kind, Comm::kExchange);
  RoundHeader other;
  other.hash = 8;
  Exchange(other);
  ASSERT_EQ(NextComm().kind, Comm::kExchange);
  std::vector<double> roll_call = rank_->Numbers(now_);
  roll_call[1] = 8;
  rank_->OnExchanged(roll_call, now_);
  EXPECT_THAT(rank_->fault(), HasSubstr("ranks 1"));
}

TEST_F(RankFailureTest, ASurvivorKeepsWhatWasInFlightWhenNobodyFinishedTheRound) {
  Start(Mode::kFree);
  Step();
  CopyNext();
  ASSERT_EQ(NextComm().kind, Comm::kFill);
  rank_->OnFilled(1);
  const int ref = rank_->buffers().ref;
  rank_->Rejoin(0, ForGeneration(rank_->state(), 2, 2), now_);
  EXPECT_EQ(rank_->sent_updates(), 0);
  EXPECT_EQ(rank_->buffers().ref, ref);
  EXPECT_EQ(CopyNext(), Copy::kPublish) << "anew";
  Round(Steps(1));
  EXPECT_EQ(rank_->sent_updates(), 1);
}

TEST_F(RankFailureTest, ASurvivorCountsItsUpdateAsSentWhenOthersFinishedTheRound) {
  Start(Mode::kFree);
  Step();
  CopyNext();
  ASSERT_EQ(NextComm().kind, Comm::kFill);
  rank_->OnFilled(1);
  const int sent = rank_->buffers().sent;
  RoundState theirs = rank_->state();
  FinishRound(RoundSums(), theirs.plan, &theirs);
  rank_->Rejoin(0, ForGeneration(theirs, 2, 2), now_);
  EXPECT_EQ(rank_->sent_updates(), 1);
  EXPECT_EQ(rank_->buffers().ref, sent);
  EXPECT_EQ(CopyNext(), Copy::kRebase);
}

TEST_F(RankFailureTest, WhoWasLeftBehindTakesTheCanonicalModel) {
  Start(Mode::kFree);
  Step();
  CopyNext();
  RoundState theirs = ForGeneration(rank_->state(), 2, 2);
  FinishRound(RoundSums(), theirs.plan, &theirs);  // One round, in a generation without it.
  rank_->Rejoin(0, ForGeneration(theirs, 3, 2), now_);
  EXPECT_EQ(CopyNext(), Copy::kReset);
  EXPECT_EQ(rank_->lost_updates(), 1);
}

}  // namespace
}  // namespace paceline
