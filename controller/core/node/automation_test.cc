#include "controller/core/node/automation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AutomationTest : public ::testing::Test {
 protected:
  AutomationTest() {
    for (const char* name : {"a", "b", "c", "d"}) {
      nodes_[NodeName(name)].contact = Contact::kReachable;
    }
  }

  void Hold(const char* name, const char* owner, bool drain) {
    paceline::Hold hold;
    hold.owner = owner;
    if (drain) hold.drain = DrainMode::kSwap;
    nodes_[NodeName(name)].holds.push_back(hold);
  }
  std::string Refused(const char* name, double max_share = 0.25) {
    const auto refusal = RefuseAutomaticDrain(automation_, nodes_, NodeName(name), max_share);
    message_ = refusal.has_value() ? refusal->message : "";
    return refusal.has_value() ? refusal->reason : "";
  }

  Automation automation_;
  std::map<NodeName, Node> nodes_;
  std::string message_;
};

TEST_F(AutomationTest, DrainsUpToItsShare) {
  EXPECT_EQ(Refused("a"), "");
  Hold("a", "automation", true);
  EXPECT_EQ(Refused("a"), "") << "it is under way";
  EXPECT_EQ(Refused("b"), "BRAKE");
  EXPECT_THAT(message_, HasSubstr("with b 2 of 4 nodes"));
  EXPECT_EQ(Refused("b", 0.5), "");
}

TEST_F(AutomationTest, NodesThatDoNotAnswerCountToTheShareAndThoseOfPersonsDoNot) {
  Hold("a", "ann", true);
  EXPECT_EQ(Refused("b"), "");
  nodes_[NodeName("c")].contact = Contact::kUnreachable;
  EXPECT_EQ(Refused("b"), "BRAKE");
  nodes_[NodeName("c")].contact = Contact::kLost;
  EXPECT_EQ(Refused("b"), "BRAKE");
  EXPECT_EQ(Refused("c"), "") << "it is out anyway";
  EXPECT_THAT(NodesOut(nodes_, NodeName("b")), ElementsAre(NodeName("b"), NodeName("c")));
}

TEST_F(AutomationTest, PauseAndPersonsGoBefore) {
  Hold("a", "ann", false);
  EXPECT_EQ(Refused("a"), "HELD_BY_PERSON");
  automation_ = {true, "ann", "we move racks", absl::Time()};
  EXPECT_EQ(Refused("b"), "AUTOMATION_PAUSED");
  EXPECT_THAT(message_, HasSubstr("paused by ann: we move racks"));
  EXPECT_EQ(Refused("x"), "NODE_NOT_FOUND");
}

}  // namespace
}  // namespace paceline
