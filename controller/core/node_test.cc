#include "controller/core/node.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

TEST(NodeTest, HelloMakesItReadyAndKeepsTheFirstRegistration) {
  Node node;
  WelcomeNode(node, NodeFacts{}, At(0));
  EXPECT_EQ(node.state, NodeState::kReady);
  WelcomeNode(node, NodeFacts{}, At(50));
  EXPECT_EQ(node.registered, At(0).wall);
}

TEST(NodeTest, SilenceMakesItUnreachableAndAReportReadyAgain) {
  Node node;
  WelcomeNode(node, NodeFacts{}, At(0));
  HearFromNode(node, At(5));
  EXPECT_FALSE(TickNode(node, At(14)));
  EXPECT_TRUE(TickNode(node, At(15)));
  EXPECT_EQ(node.state, NodeState::kUnreachable);
  EXPECT_FALSE(TickNode(node, At(16))) << "said once";
  EXPECT_TRUE(HearFromNode(node, At(20)));
  EXPECT_EQ(node.state, NodeState::kReady);
}

TEST(NodeTest, DisconnectedNodeIsUnreachableAtOnceUntilItIsBack) {
  Node node;
  WelcomeNode(node, NodeFacts{}, At(0));
  EXPECT_TRUE(DisconnectNode(node));
  EXPECT_EQ(node.state, NodeState::kUnreachable);
  EXPECT_FALSE(TickNode(node, At(100)));
  EXPECT_EQ(node.reason, "the worker has disconnected");
  WelcomeNode(node, NodeFacts{}, At(101));
  EXPECT_EQ(node.state, NodeState::kReady);
}

}  // namespace
}  // namespace paceline
