#include "worker/trainer/core/membership.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Action = MembershipState::Action;

const absl::Time kNow = absl::FromUnixSeconds(1000);

MembershipOrder Order(int64_t generation, int rank, bool planned = false) {
  return {generation, rank, /*has_store=*/true, planned};
}

class MembershipTest : public testing::Test {
 protected:
  Action Next(absl::Duration later = absl::ZeroDuration()) const {
    return state_.Next(kNow + later).action;
  }
  // Brings it to training as a rank of generation 1.
  void Train() {
    state_.OnOrder(Order(1, 0));
    state_.OnLoaded();
    state_.OnRendezvous(1);
    state_.OnRendezvousDone(1);
  }

  MembershipState state_{/*recovers=*/true, absl::Seconds(600)};
};

TEST_F(MembershipTest, RendezvousBeginsWhenItIsLoadedAndKnowsWhere) {
  EXPECT_EQ(Next(), Action::kWait);
  state_.OnOrder({1, 0, /*has_store=*/false, false});
  state_.OnLoaded();
  EXPECT_EQ(Next(), Action::kWait);
  state_.OnOrder(Order(1, 0));
  EXPECT_EQ(Next(), Action::kRendezvous);
  state_.OnRendezvous(1);
  EXPECT_EQ(Next(), Action::kRendezvous);
  state_.OnRendezvousDone(1);
  EXPECT_EQ(Next(), Action::kTrain);
  EXPECT_EQ(state_.trained_generation(), 1);
}

TEST_F(MembershipTest, AnOrderWithoutTheStoreDoesNotForgetIt) {
  state_.OnLoaded();
  state_.OnOrder(Order(1, 0));
  state_.OnOrder({1, 0, /*has_store=*/false, false});
  EXPECT_EQ(Next(), Action::kRendezvous);
}

TEST_F(MembershipTest, AnUnplannedGenerationEndsThePresentOneAtOnce) {
  Train();
  state_.OnOrder({2, 0, /*has_store=*/false, false});
  EXPECT_EQ(Next(), Action::kLeave);
  state_.OnFailed("", kNow);
  EXPECT_TRUE(state_.waiting());
  EXPECT_EQ(Next(), Action::kWait) << "the store is not known yet";
  state_.OnOrder(Order(2, 0));
  EXPECT_EQ(Next(), Action::kRendezvous);
  state_.OnRendezvous(2);
  state_.OnRendezvousDone(2);
  EXPECT_EQ(Next(), Action::kTrain);
  EXPECT_FALSE(state_.waiting());
}

TEST_F(MembershipTest, AFailedGenerationIsNotMetAgain) {
  Train();
  state_.OnFailed("connection closed", kNow);
  EXPECT_EQ(state_.error(), "connection closed");
  state_.OnOrder(Order(1, 0));
  EXPECT_EQ(Next(), Action::kWait);
  state_.OnOrder(Order(2, 0));
  state_.OnRendezvous(2);
  state_.OnFailed("nobody came", kNow);
  EXPECT_EQ(Next(), Action::kWait);
  state_.OnOrder(Order(3, 0));
  EXPECT_EQ(Next(), Action::kRendezvous);
}

TEST_F(MembershipTest, WhoHasLostItsStateHasTrainedInNoGenerationUntilItGetsAnother) {
  Train();
  state_.OnOrder(Order(2, 0));
  state_.OnFailed("", kNow);
  EXPECT_EQ(state_.trained_generation(), 1) << "it keeps its state";
  state_.OnRendezvous(2);
  state_.OnStateLost();
  state_.OnFailed("cut off", kNow);
  EXPECT_EQ(state_.trained_generation(), 0);
  EXPECT_EQ(state_.left_generation(), 2);
  state_.OnOrder(Order(3, 0));
  EXPECT_EQ(Next(), Action::kRendezvous);
  state_.OnRendezvous(3);
  state_.OnRendezvousDone(3);
  EXPECT_EQ(state_.trained_generation(), 3);
}

TEST_F(MembershipTest, ARendezvousEndsWhenItsGenerationIsReplaced) {
  state_.OnLoaded();
  state_.OnOrder(Order(1, 0));
  state_.OnRendezvous(1);
  state_.OnOrder(Order(2, 0));
  EXPECT_EQ(Next(), Action::kLeave);
  state_.OnFailed("", kNow);
  EXPECT_EQ(Next(), Action::kRendezvous);
}

TEST_F(MembershipTest, OldOrdersAreIgnored) {
  Train();
  state_.OnOrder(Order(3, 0));
  state_.OnOrder(Order(2, 0));
  EXPECT_EQ(state_.order().generation, 3);
}

TEST_F(MembershipTest, GivesUpWhenItHasWaitedTooLong) {
  Train();
  state_.OnFailed("connection closed", kNow);
  EXPECT_EQ(Next(absl::Seconds(599)), Action::kWait);
  EXPECT_EQ(Next(absl::Seconds(600)), Action::kGiveUp);
}

TEST(MembershipWithoutRecoveryTest, GivesUpAtOnce) {
  MembershipState state(/*recovers=*/false, absl::Seconds(600));
  state.OnLoaded();
  state.OnOrder(Order(1, 0));
  state.OnRendezvous(1);
  state.OnRendezvousDone(1);
  state.OnFailed("connection closed", kNow);
  EXPECT_EQ(state.Next(kNow).action, Action::kGiveUp);
}

TEST_F(MembershipTest, ASpareWaitsAsLongAsItTakes) {
  state_.OnLoaded();
  state_.OnOrder(Order(1, -1));
  EXPECT_EQ(Next(absl::Hours(100)), Action::kWait);
  state_.OnOrder(Order(2, 3));
  EXPECT_EQ(Next(absl::Hours(100)), Action::kRendezvous);
}

TEST_F(MembershipTest, APlannedGenerationIsConnectedAgreedOnAndJoined) {
  Train();
  state_.OnOrder(Order(2, 0, /*planned=*/true));
  EXPECT_EQ(Next(), Action::kConnect);
  state_.OnConnected(2);
  EXPECT_EQ(state_.ready_generation(), 2);
  EXPECT_EQ(Next(), Action::kAgree);
  state_.OnLeft(kNow);
  EXPECT_TRUE(state_.waiting());
  EXPECT_EQ(Next(), Action::kRendezvous);
  state_.OnRendezvous(2);
  state_.OnRendezvousDone(2);
  EXPECT_EQ(Next(), Action::kTrain);
}

TEST_F(MembershipTest, OneThatLeavesTheRanksAgreesAndStandsBy) {
  Train();
  state_.OnOrder(Order(2, -1, /*planned=*/true));
  EXPECT_EQ(Next(), Action::kAgree);
  state_.OnLeft(kNow);
  EXPECT_EQ(Next(absl::Hours(1)), Action::kWait);
}

TEST_F(MembershipTest, OneThatHandsItsStateOverConnectsFirst) {
  Train();
  MembershipOrder order = Order(2, -1, /*planned=*/true);
  order.hands_over = true;
  order.has_store = false;
  state_.OnOrder(order);
  EXPECT_EQ(Next(), Action::kTrain) << "nobody is there who could get it";
  order.has_store = true;
  state_.OnOrder(order);
  EXPECT_EQ(Next(), Action::kConnect);
  state_.OnConnected(2);
  EXPECT_EQ(Next(), Action::kAgree);
  state_.OnLeft(kNow);
  EXPECT_EQ(Next(absl::Hours(1)), Action::kWait);
  state_.OnOrder(Order(3, 0));
  EXPECT_EQ(Next(), Action::kRendezvous) << "the hand-over was called off";
}

TEST_F(MembershipTest, APlannedGenerationThatCannotBeConnectedIsNotTriedAgain) {
  Train();
  state_.OnOrder(Order(2, 0, /*planned=*/true));
  state_.OnConnectFailed(2);
  EXPECT_EQ(Next(), Action::kTrain);
  state_.OnOrder(Order(3, 0));
  EXPECT_EQ(Next(), Action::kLeave);
}

TEST_F(MembershipTest, AnErrorIsOfTheGenerationThatWasLeft) {
  Train();
  EXPECT_EQ(state_.left_generation(), 0);
  state_.OnFailed("the peer is gone", kNow);
  state_.OnOrder(Order(2, 0));
  EXPECT_EQ(state_.left_generation(), 1) << "whatever it is told then";
  state_.OnRendezvous(2);
  state_.OnFailed("cannot connect", kNow);
  EXPECT_EQ(state_.left_generation(), 2);
}

}  // namespace
}  // namespace paceline
