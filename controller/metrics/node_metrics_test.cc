#include "controller/metrics/node_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/testing/played_metrics.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class NodeMetricsTest : public PlayedMetrics {
 protected:
  void Drain(const std::string& node, DrainMode mode, double at) {
    Hold hold;
    hold.drain = mode;
    hold.owner = "ann";
    hold.reason = "its fan is loud";
    Apply(HoldRequested{NodeName(node), hold}, at);
  }
  std::string Drains(const std::string& source, const std::string& outcome) {
    return Value("paceline_node_drains_total{outcome=\"" + outcome + "\",source=\"" + source +
                 "\"}");
  }
};

TEST_F(NodeMetricsTest, NodeIsShownWithItsFactsStateAndSlots) {
  NodeFacts facts = Facts("a", 4);
  facts.labels["rack"] = "r1";
  Apply(NodeConnected{facts, {}}, 3);
  facts = Facts("b", 0);
  facts.gpus = {"H200", "H200"};
  Apply(NodeConnected{facts, {}}, 3);
  Train(4);
  Refresh(5);
  EXPECT_EQ(Value("paceline_node_info{gpu_model=\"\",node=\"a\",rack=\"r1\",version=\"1.0\"}"),
            "1");
  EXPECT_EQ(Value("paceline_node_info{gpu_model=\"H200\",node=\"b\",rack=\"\",version=\"1.0\"}"),
            "1");
  EXPECT_EQ(Value("paceline_node_state{node=\"a\",state=\"ready\"}"), "1");
  EXPECT_EQ(Value("paceline_node_state{node=\"a\",state=\"lost\"}"), "0");
  EXPECT_EQ(Value("paceline_node_slots{node=\"a\",state=\"used\"}"), "2");
  EXPECT_EQ(Value("paceline_node_slots{node=\"a\",state=\"free\"}"), "2");
  EXPECT_EQ(Value("paceline_node_gpus{node=\"a\",state=\"free\"}"), "");
  EXPECT_EQ(Value("paceline_node_gpus{node=\"b\",state=\"free\"}"), "2");
  EXPECT_EQ(Value("paceline_node_slots{node=\"b\",state=\"free\"}"), "") << "none is used";
  EXPECT_EQ(Value("paceline_node_last_heartbeat_timestamp_seconds{node=\"a\"}"), "1700000004");
  EXPECT_EQ(Value("paceline_node_drain_started_timestamp_seconds{node=\"a\",source=\"person\"}"),
            "");
  EXPECT_EQ(Value("paceline_automation_paused{source=\"person\"}"), "0");
  EXPECT_EQ(Value("paceline_automation_paused{source=\"automation\"}"), "0");
}

TEST_F(NodeMetricsTest, FactsThatChangeTakeTheOldOnesPlace) {
  Join({"a"});
  Refresh(1);
  NodeFacts facts = Facts("a");
  facts.version = "1.1";
  Apply(NodeConnected{facts, {}}, 2);
  Refresh(3);
  EXPECT_THAT(Text(), HasSubstr("rack=\"\",version=\"1.1\"} 1\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("rack=\"\",version=\"1.0\"}")));
}

TEST_F(NodeMetricsTest, BadMeasurementsOfTheNewestCheck) {
  Join({"a"});
  Apply(CheckRequested{NodeName("a")}, 1);
  Refresh(1);
  EXPECT_THAT(Text(), Not(HasSubstr("\npaceline_node_check_bad_measurements")));
  CheckResult result;
  result.id = cluster_.nodes().at(NodeName("a")).checks.asked;
  result.time = At(2).wall;
  Measurement errors;
  errors.name = "gpu0_ecc_errors";
  errors.value = 1;
  result.measurements = {errors};
  NodeReported report{NodeName("a"), {}};
  report.check = result;
  Apply(report, 2);
  Refresh(3);
  EXPECT_EQ(Value("paceline_node_check_bad_measurements{node=\"a\"}"), "1");
}

TEST_F(NodeMetricsTest, DrainOfAnEmptyNodeIsDoneAtOnce) {
  Join({"a", "b"});
  Drain("a", DrainMode::kFinish, 2);
  Refresh(3);
  EXPECT_EQ(Value("paceline_node_drain_started_timestamp_seconds{node=\"a\",source=\"person\"}"),
            "1700000002");
  EXPECT_EQ(Value("paceline_node_state{node=\"a\",state=\"drained\"}"), "1");
  EXPECT_EQ(Drains("person", "drained"), "1");
  Apply(NodeResumeRequested{NodeName("a"), "ann"}, 4);
  Refresh(5);
  EXPECT_EQ(Value("paceline_node_drain_started_timestamp_seconds{node=\"a\",source=\"person\"}"),
            "");
  EXPECT_EQ(Drains("person", "drained"), "1") << "once";
  EXPECT_EQ(Drains("person", "ended"), "0");
}

TEST_F(NodeMetricsTest, DrainThatIsTakenBackHasEnded) {
  Join({"a", "b"});
  Train(1);
  Drain("a", DrainMode::kFinish, 2);
  EXPECT_EQ(Drains("person", "drained"), "0") << "a rank trains there";
  Apply(NodeResumeRequested{NodeName("a"), "ann"}, 3);
  EXPECT_EQ(Drains("person", "ended"), "1");
}

TEST_F(NodeMetricsTest, DrainOfALostNodeAndByTheAutomation) {
  Join({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"});
  Train(1);
  const std::string home = job().ranks[0].slot.node.value();
  Drain(home, DrainMode::kFinish, 2);
  Apply(NodeDisconnected{NodeName(home)}, 3);
  Apply(LossDeclared{NodeName(home), "ann", "it burns"}, 4);
  EXPECT_EQ(Drains("person", "lost"), "1");
  AutomaticDrainRequested drain;
  drain.node = NodeName("j");
  drain.reason = "slow";
  Apply(drain, 5);
  EXPECT_EQ(Drains("automation", "drained"), "1");
  EXPECT_EQ(Drains("person", "drained"), "0");
}

TEST_F(NodeMetricsTest, DrainFromBeforeTheStartIsNotCountedAgain) {
  Join({"a"});
  Drain("a", DrainMode::kFinish, 2);
  ControllerMetrics next("1.0");
  next.ShowCluster(cluster_, At(3));
  next.ShowChanges(cluster_, cluster_.Step(NodeResumeRequested{NodeName("a"), "ann"}, At(4)),
                   At(4));
  const std::string text = next.Text(0);
  for (const char* outcome : {"drained", "ended", "lost"}) {
    EXPECT_THAT(text, HasSubstr(std::string("paceline_node_drains_total{outcome=\"") + outcome +
                                "\",source=\"person\"} 0\n"));
  }
}

}  // namespace
}  // namespace paceline
