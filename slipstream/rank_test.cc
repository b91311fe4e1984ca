#include "slipstream/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "slipstream/rank_fixture.h"

namespace paceline {
namespace {

using testing::ElementsAre;
using Compute = ComputeOrder::Kind;
using Copy = ComputeOrder::Copy;
using Comm = CommOrder::Kind;
using Fill = CommOrder::Fill;
using Mode = SlipstreamMode;
constexpr absl::Duration kStep = kTestStep;

TEST_F(RankTest, BeginsWithTheCanonicalModel) {
  Start(Mode::kFree);
  EXPECT_EQ(CopyNext(), Copy::kReset);
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate);
  Start(Mode::kSync);
  EXPECT_EQ(CopyNext(), Copy::kLoad);
  EXPECT_EQ(NextCompute().kind, Compute::kGradient);
}

TEST_F(RankTest, ARoundSendsWhatIsFinishedAndTheNextBoundaryRebases) {
  Start(Mode::kFree);
  Step();
  EXPECT_EQ(CopyNext(), Copy::kPublish);
  EXPECT_THAT(Round(Steps(1)),
              ElementsAre(Comm::kFill, Comm::kExchange, Comm::kReduce, Comm::kApply));
  EXPECT_EQ(payload_.model, 2);
  EXPECT_EQ(rank_->sent_updates(), 1);
  EXPECT_EQ(rank_->state().total, RankSteps(2, 1, 0));
  EXPECT_EQ(CopyNext(), Copy::kRebase);
}

TEST_F(RankTest, ARankWithoutWorkAddsZeros) {
  Start(Mode::kFree);
  EXPECT_THAT(Round(Steps(3)),
              ElementsAre(Comm::kExchange, Comm::kFill, Comm::kReduce, Comm::kApply));
  EXPECT_EQ(fill_, Fill::kZeros);
}

TEST_F(RankTest, ARoundInWhichNobodyHasWorkMovesNothing) {
  Start(Mode::kFree);
  EXPECT_THAT(Round(), ElementsAre(Comm::kExchange, Comm::kApply));
  EXPECT_EQ(payload_.model, 0);
  EXPECT_EQ(rank_->state().round, 1);
}

TEST_F(RankTest, BuffersAreFreeDuringTheExchangeButNotDuringPasses) {
  Start(Mode::kFree);
  Step();
  CopyNext();
  Round(Steps(1));
  // The correction by round 1 is not taken yet when round 2 fills.
  now_ += absl::Seconds(1);
  const ComputeOrder boundary = NextCompute();
  EXPECT_EQ(boundary.copy, Copy::kRebase);
  EXPECT_EQ(NextComm().kind, Comm::kWait) << "for the copy";
  rank_->OnCopied(absl::ZeroDuration());
  Step();
  EXPECT_EQ(CopyNext(), Copy::kPublish);
  EXPECT_EQ(NextComm().kind, Comm::kFill);
  Step();
  EXPECT_EQ(CopyNext(), Copy::kPublish) << "beside the fill";
  rank_->OnFilled(1);
}

TEST_F(RankTest, ACorrectionThatComesWhileARoundIsInFlightMovesWhatIsSent) {
  Start(Mode::kFree);
  Step();
  CopyNext();
  ASSERT_EQ(NextComm().kind, Comm::kFill);
  rank_->OnFilled(1);
  Step();
  EXPECT_EQ(CopyNext(), Copy::kPublish);
  // Round 1 finishes and round 2 begins within one step.
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate);
  Round(Steps(1));
  now_ += absl::Seconds(1);
  ASSERT_EQ(NextComm().kind, Comm::kFill);
  rank_->OnFilled(1);
  rank_->OnStepped(kStep, 1);
  EXPECT_EQ(CopyNext(), Copy::kRebaseInFlight);
}

TEST_F(RankTest, ABoundaryThatNoRoundNeedsIsNotPublished) {
  Start(Mode::kFree);
  Step();
  Step();
  RoundHeader slow = Steps(1000);      // Half the training is done.
  slow.collective = absl::Seconds(2);  // A window of many steps.
  Round(slow);
  ASSERT_EQ(CopyNext(), Copy::kRebase);
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate);
  now_ += kStep;
  rank_->OnStepped(kStep, 1);
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate) << "the next boundary comes before the round";
}

TEST_F(RankTest, WaitsAtTheCapOnly) {
  Start(Mode::kFree);
  const int64_t cap = rank_->state().window.Cap({});
  for (int64_t i = 0; i < cap; ++i) Step();
  EXPECT_EQ(CopyNext(), Copy::kPublish);
  const ComputeOrder order = NextCompute();
  EXPECT_EQ(order.kind, Compute::kWait);
  EXPECT_EQ(order.wait, ComputeOrder::Wait::kCap);
  Round();
  EXPECT_EQ(CopyNext(), Copy::kRebase);
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate);
}

TEST_F(RankTest, TheNextRoundIsAWindowAfterTheHeader) {
  Start(Mode::kFree);
  Step();
  CopyNext();
  Round(Steps(1));  // Both steps are known now: a window of 100 ms.
  const CommOrder order = NextComm();
  EXPECT_EQ(order.kind, Comm::kWait);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(order.until - now_), 100, 1e-3);
}

TEST_F(RankTest, ItsFirstStepsSayNothingOfTheLength) {
  startup_steps_ = 2;
  Start(Mode::kFree);
  Step();
  Step();
  CopyNext();
  Round();
  EXPECT_EQ(rank_->sums().started, 0);
  EXPECT_EQ(rank_->state().window.step(), absl::ZeroDuration());
  Step();
  Round();
  EXPECT_EQ(rank_->sums().started, 1);
  EXPECT_EQ(rank_->state().window.step(), kStep);
}

TEST_F(RankTest, ARoundIsStretchedIfOthersComeToTheCapMeanwhile) {
  for (const int steps : {5, 7}) {  // Three windows of two steps are allowed.
    Start(Mode::kFree);
    Step();
    CopyNext();
    Round(Steps(1));
    Step();
    CopyNext();
    while (NextComm().kind == Comm::kWait) now_ += absl::Milliseconds(1);
    rank_->OnFilled(1);
    ASSERT_EQ(NextComm().kind, Comm::kExchange);
    now_ += steps * kStep;
    Exchange(Steps(1));
    Round();
    RoundHeader stretched = Steps(1);
    stretched.stretched = true;
    Round(stretched);
    EXPECT_EQ(rank_->sums().stretched, steps == 7) << "both of two ranks say so";
  }
}

TEST_F(RankTest, PauseStopsForARoundAfterItsWindowAndAStep) {
  Start(Mode::kPause);
  Step();
  EXPECT_EQ(CopyNext(), Copy::kPublish);
  EXPECT_EQ(NextCompute().wait, ComputeOrder::Wait::kRound);
  EXPECT_EQ(NextComm().kind, Comm::kFill);
  rank_->OnFilled(1);
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  Round(Steps(1));
  EXPECT_EQ(CopyNext(), Copy::kRebase);
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate);
  now_ += absl::Hours(1);
  EXPECT_EQ(NextComm().kind, Comm::kWait) << "for its step";
}

TEST_F(RankTest, AtAStopBothThreadsStandStillUntilTold) {
  Start(Mode::kFree);
  rank_->OrderSave(3);
  Step();
  CopyNext();
  RoundHeader other = Steps(1);
  other.save_ahead = 3;
  Round(other);
  EXPECT_TRUE(rank_->state().settles);
  EXPECT_EQ(CopyNext(), Copy::kRebase);
  EXPECT_EQ(NextCompute().wait, ComputeOrder::Wait::kRound);
  Round(other);
  EXPECT_EQ(CopyNext(), Copy::kRebase) << "the others' work";
  EXPECT_EQ(NextCompute().kind, Compute::kStop);
  EXPECT_EQ(rank_->state().due.save_order, 3);
  now_ += absl::Minutes(1);
  EXPECT_EQ(NextComm().until, absl::InfiniteFuture());
  rank_->OnStopped(now_);
  EXPECT_GT(NextComm().until, now_) << "a window from now";
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate);
}

TEST_F(RankTest, TheGradientThatIsOfferedAtAStopStaysLate) {
  ranks_ = 3;
  Start(Mode::kDrop);
  for (int i = 0; i < 3; ++i) {
    CopyNext();
    ASSERT_EQ(NextCompute().kind, Compute::kGradient);
    Round(Ready());
    rank_->OnGradient(1, kStep, 1);
  }
  CopyNext();
  ASSERT_EQ(NextCompute().kind, Compute::kGradient);
  rank_->OrderSave(1);
  now_ += kStep;
  RoundHeader others = Ready();
  others.save_ahead = 1;
  ASSERT_EQ(NextComm().kind, Comm::kExchange);
  Exchange(others);
  rank_->OnGradient(1, kStep, 1);
  Round();
  ASSERT_EQ(CopyNext(), Copy::kLoad);
  ASSERT_EQ(NextCompute().kind, Compute::kStop);
  rank_->OnStopped(now_);
  EXPECT_EQ(NextCompute().kind, Compute::kWait) << "it is offered";
  Round(Ready());
  EXPECT_EQ(rank_->sums().stale, 1);
}

TEST_F(RankTest, TellsTheMeanLossOfItsStepsOnce) {
  Start(Mode::kFree);
  loss_ = 2;
  Step();
  loss_ = 4;
  Step();
  loss_ = std::numeric_limits<double>::quiet_NaN();
  Step();
  CopyNext();
  Round(Steps(1));
  EXPECT_EQ(rank_->sums().loss, 3);
  Round(Steps(1));
  EXPECT_FALSE(rank_->sums().loss.has_value());
}

TEST_F(RankTest, TheLossOfAPollIsToldAgain) {
  Start(Mode::kDrop);
  loss_ = 5;
  Step();
  ASSERT_EQ(NextComm().kind, Comm::kExchange);
  Exchange(RoundHeader());
  Round(Ready());
  EXPECT_EQ(rank_->sums().loss, 5);
}

TEST_F(RankTest, SyncTakesTheMeanOfAllGradients) {
  Start(Mode::kSync);
  Step();
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  Round(Ready());
  EXPECT_EQ(fill_, Fill::kGradient);
  EXPECT_EQ(payload_.model, 2);
  EXPECT_EQ(rank_->state().total.steps(), 1);
  EXPECT_EQ(CopyNext(), Copy::kLoad);
}

TEST_F(RankTest, SyncComesToARoundWhenItIsReady) {
  Start(Mode::kSync);
  EXPECT_EQ(NextComm().until, absl::InfiniteFuture());
  Step();
  EXPECT_EQ(NextComm().kind, Comm::kExchange);
}

TEST_F(RankTest, DropPollsUntilThereAreEnough) {
  Start(Mode::kDrop);
  EXPECT_EQ(NextComm().kind, Comm::kExchange) << "not ready itself";
  Exchange(Ready());
  const CommOrder order = NextComm();
  EXPECT_EQ(order.kind, Comm::kWait);
  EXPECT_LT(order.until, now_ + absl::Milliseconds(30));
  Step();
  Round(Ready());
  EXPECT_EQ(rank_->state().round, 1);
}

// While this rank computes a gradient the others make a round.
TEST_F(RankTest, ALateGradientIsDroppedAndTheFourthInARowIsUsed) {
  ranks_ = 3;
  Start(Mode::kDrop);
  for (int i = 0; i < 4; ++i) {
    CopyNext();
    ASSERT_EQ(NextCompute().kind, Compute::kGradient);
    Round(Ready());
    EXPECT_EQ(fill_, Fill::kZeros);
    rank_->OnGradient(1, kStep, 1);
  }
  EXPECT_EQ(rank_->late().dropped(), 3);
  EXPECT_EQ(NextCompute().kind, Compute::kWait) << "the fourth is offered";
  Round(Ready());
  EXPECT_EQ(rank_->sums().stale, 1);
  EXPECT_EQ(fill_, Fill::kGradient);
  EXPECT_EQ(rank_->used_gradients(), 1);
  EXPECT_EQ(rank_->late().misses(), 0);
}

TEST_F(RankTest, NoGradientIsBegunAtAModelThatIsAboutToChange) {
  ranks_ = 3;
  Start(Mode::kDrop);
  CopyNext();
  ASSERT_EQ(NextComm().kind, Comm::kExchange);
  EXPECT_EQ(NextComm().kind, Comm::kWait);
  Exchange(Ready());
  EXPECT_EQ(NextCompute().kind, Compute::kWait);
  Round();
  EXPECT_EQ(CopyNext(), Copy::kLoad);
}

TEST_F(RankTest, AGradientThatNoRoundTookBeforeAChangeToUpdatesIsDropped) {
  ranks_ = 3;
  Start(Mode::kDrop);
  SlipstreamPlan plan;
  plan.version = 2;
  plan.mode = Mode::kFree;
  rank_->Prepare(plan);
  CopyNext();
  ASSERT_EQ(NextCompute().kind, Compute::kGradient);
  RoundHeader others = Ready();
  others.plan_ahead = 1;
  ASSERT_EQ(NextComm().kind, Comm::kExchange);
  Exchange(others);
  rank_->OnGradient(1, kStep, 1);
  Round();
  EXPECT_TRUE(outcome_->takes_up_plan);
  EXPECT_EQ(rank_->late().dropped(), 1);
  EXPECT_EQ(CopyNext(), Copy::kReset);
  EXPECT_EQ(NextCompute().kind, Compute::kUpdate);
}

}  // namespace
}  // namespace paceline
