#include "controller/core/node/node.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

constexpr absl::Duration kLease = absl::Seconds(60);

// A node that said hello at 0, as the cluster knows it.
Node Welcome() {
  Node node;
  WelcomeNode(node, NodeFacts{}, kLease, At(0));
  RecordState(node, At(0));
  return node;
}

Hold HoldOf(std::optional<DrainMode> drain, double until = 0) {
  Hold hold;
  hold.drain = drain;
  hold.owner = "ann";
  hold.reason = "its fan is loud";
  if (until > 0) hold.until = At(until).wall;
  return hold;
}

TEST(NodeTest, HelloMakesItReadyAndKeepsTheFirstRegistration) {
  Node node;
  WelcomeNode(node, NodeFacts{}, kLease, At(0));
  EXPECT_EQ(node.state, NodeState::kReady);
  WelcomeNode(node, NodeFacts{}, kLease, At(50));
  EXPECT_EQ(node.registered, At(0).wall);
}

TEST(NodeTest, NoReportMakesItUnreachableAndAReportReadyAgain) {
  Node node;
  WelcomeNode(node, NodeFacts{}, kLease, At(0));
  HearFromNode(node, kLease, At(5));
  EXPECT_FALSE(TickNode(node, At(14)));
  EXPECT_TRUE(TickNode(node, At(15)));
  EXPECT_EQ(node.state, NodeState::kUnreachable);
  EXPECT_FALSE(TickNode(node, At(16))) << "said once";
  EXPECT_TRUE(HearFromNode(node, kLease, At(20)));
  EXPECT_EQ(node.state, NodeState::kReady);
}

TEST(NodeTest, DisconnectedNodeIsUnreachableAtOnceUntilItIsBack) {
  Node node;
  WelcomeNode(node, NodeFacts{}, kLease, At(0));
  EXPECT_TRUE(DisconnectNode(node));
  EXPECT_EQ(node.state, NodeState::kUnreachable);
  EXPECT_FALSE(TickNode(node, At(50)));
  EXPECT_EQ(node.reason, "the worker has disconnected");
  WelcomeNode(node, NodeFacts{}, kLease, At(101));
  EXPECT_EQ(node.state, NodeState::kReady);
}

TEST(NodeTest, LeaseThatHasRunOutWithItsMarginMakesItLost) {
  Node node = Welcome();
  DisconnectNode(node);
  EXPECT_EQ(NextDeadline(node), At(66).steady) << "a tenth more";
  EXPECT_FALSE(TickNode(node, At(65)));
  EXPECT_TRUE(TickNode(node, At(66)));
  EXPECT_EQ(node.state, NodeState::kLost);
  EXPECT_EQ(node.reason, "the worker has disconnected, and its lease has run out");
  EXPECT_FALSE(TickNode(node, At(1000)));
  HearFromNode(node, kLease, At(1001));
  EXPECT_EQ(node.state, NodeState::kReady);
  EXPECT_EQ(LeasePatience(absl::Seconds(5)), absl::Seconds(6));
}

TEST(NodeTest, WithoutLeasesNothingIsEverLost) {
  Node node;
  WelcomeNode(node, NodeFacts{}, absl::ZeroDuration(), At(0));
  TickNode(node, At(10));
  EXPECT_FALSE(TickNode(node, At(1e9)));
  EXPECT_EQ(node.state, NodeState::kUnreachable);
}

TEST(NodeTest, StateShownIsTheFirstThatApplies) {
  Node node = Welcome();
  SetHold(node.holds, HoldOf(std::nullopt), At(1));
  ShowState(node);
  EXPECT_EQ(node.state, NodeState::kCordoned);
  EXPECT_EQ(node.reason, "cordoned by ann: its fan is loud");
  SetHold(node.holds, HoldOf(DrainMode::kSwap), At(2));
  node.occupied = true;
  ShowState(node);
  EXPECT_EQ(node.state, NodeState::kDraining);
  node.occupied = false;
  ShowState(node);
  EXPECT_EQ(node.state, NodeState::kDrained);
  DisconnectNode(node);
  EXPECT_EQ(node.state, NodeState::kUnreachable);
  EXPECT_EQ(node.reason, "the worker has disconnected; drained (swap) by ann: its fan is loud");
  LoseContact(node, "burnt");
  EXPECT_EQ(node.state, NodeState::kLost);
}

TEST(NodeTest, CordonEndsByItselfAndHistorySaysSo) {
  Node node = Welcome();
  SetHold(node.holds, HoldOf(std::nullopt, 5), At(1));
  ShowState(node);
  EXPECT_EQ(NextDeadline(node), At(5).steady);
  EXPECT_TRUE(TickNode(node, At(5)));
  EXPECT_EQ(node.state, NodeState::kReady);
  EXPECT_EQ(node.history.back().who, "controller");
  EXPECT_EQ(node.history.back().what, "the cordon by ann has ended");
}

TEST(NodeTest, HistoryHasEachObservedStateOnceAndIsBounded) {
  Node node = Welcome();
  ASSERT_EQ(node.history.size(), 1u);
  EXPECT_EQ(node.history[0].what, "reports arrive");
  EXPECT_FALSE(RecordState(node, At(1)));
  SetHold(node.holds, HoldOf(DrainMode::kSwap), At(2));
  ShowState(node);
  Record(node, "ann", "drain", At(2));
  EXPECT_TRUE(RecordState(node, At(2)));
  EXPECT_EQ(node.history.size(), 2u) << "what a person did is not told twice";
  RestoreNode(node, kLease, At(3));
  EXPECT_FALSE(RecordState(node, At(3))) << "the controller's own restart is no event of the node";
  for (int i = 0; i < 200; ++i) Record(node, "ann", "again", At(4));
  EXPECT_EQ(node.history.size(), kNodeEventsKept);
}

TEST(NodeTest, RestoredNodeIsLostIfItDoesNotReturnWithinALease) {
  Node node = Welcome();
  RestoreNode(node, kLease, At(100));
  EXPECT_EQ(node.state, NodeState::kUnreachable);
  EXPECT_EQ(NextDeadline(node), At(166).steady);
  LoseContact(node, "burnt");
  RestoreNode(node, kLease, At(200));
  EXPECT_EQ(node.state, NodeState::kLost);
  EXPECT_EQ(NextDeadline(node), absl::InfiniteFuture());
}

TEST(NodeTest, LeaseThatEndsBeforeItIsUnreachableIsReportedAsSuch) {
  Node node;
  WelcomeNode(node, NodeFacts(), absl::Seconds(4), At(0));
  EXPECT_TRUE(TickNode(node, At(5.1)));
  EXPECT_EQ(node.state, NodeState::kLost);
  EXPECT_EQ(node.reason, "no report, and its lease has run out");
}

}  // namespace
}  // namespace paceline
