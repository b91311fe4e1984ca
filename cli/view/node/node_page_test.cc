#include "cli/view/node/node_page.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

template <typename Message>
Message Parsed(const char* text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

v1::Node Drained() {
  return Parsed<v1::Node>(R"(
    name: "w0" state: NODE_DRAINING reason: "drained (swap) by ann: its fan is loud" jobs: "job-1"
    holds { owner: "bob" reason: "racks move" since { seconds: 900 } until { seconds: 1600 } }
    holds { drain: DRAIN_SWAP owner: "ann" reason: "its fan is loud" since { seconds: 940 }
            until { seconds: 4600 } }
  )");
}

const absl::Time kNow = absl::FromUnixSeconds(1000);

TEST(NodePageTest, ShowsWhatTheNodeIsMadeOf) {
  v1::Node node;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    name: "w0" state: NODE_READY slots: 2 slots_used: 1 jobs: "job-1"
    hardware { cpus: 8 memory_bytes: 68719476736 os: "Linux 6.1" }
    labels { key: "zone" value: "a" } labels { key: "rack" value: "3" } version: "0.1.0"
    last_report_time { seconds: 1000 }
  )",
                                                            &node));
  const std::string page = NodePage(node, absl::FromUnixSeconds(0), {});
  EXPECT_THAT(page, HasSubstr("State:      READY\n"));
  EXPECT_THAT(page, HasSubstr("Slots:      1 of 2 used\n"));
  EXPECT_THAT(page, HasSubstr("Memory:     64.0 GiB\n"));
  EXPECT_THAT(page, HasSubstr("Labels:     rack=3, zone=a\n"));
  EXPECT_THAT(page, HasSubstr("Reported:   1970-01-01"));
}

TEST(NodePageTest, ShowsEachHoldWithItsEnd) {
  const std::string page = NodePage(Drained(), kNow, {});
  EXPECT_THAT(page, HasSubstr("Holds:      cordon by bob since 1970-01-01"));
  EXPECT_THAT(page, HasSubstr("(1 min 40 s ago), ends in 10 min 00 s: racks move\n"));
  EXPECT_THAT(page, HasSubstr("drain (swap) by ann since"));
  EXPECT_THAT(page, HasSubstr("deadline in 1 h 00 min: its fan is loud\n"));
}

TEST(NodePageTest, ALongReasonOfAHoldIsToldInFullOnce) {
  v1::Node node = Drained();
  const std::string why =
      "ECC errors on GPU 3, row remapping pending, ticket OPS-1234: the vendor comes on Thursday "
      "with a spare part";
  node.set_reason("drained (swap) by ann: " + why);
  node.mutable_holds(1)->set_reason(why);
  const std::string page = NodePage(node, kNow, {});
  EXPECT_EQ(page.find("on Thursday"), page.rfind("on Thursday"));
  EXPECT_THAT(page, HasSubstr("deadline in 1 h 00 min: ECC errors on GPU 3, row remapping"));
}

TEST(NodeTableTest, RowTellsWhoHoldsTheNodeAndSinceWhen) {
  v1::ListNodesResponse nodes;
  *nodes.add_nodes() = Drained();
  const std::string table = NodeTable(nodes, kNow, {});
  EXPECT_THAT(table, HasSubstr("w0    DRAINING"));
  EXPECT_THAT(table, HasSubstr("1 min 00 s  ann  job-1"));
}

TEST(DrainTextTest, EachJobHasALine) {
  v1::DrainNodeResponse response;
  *response.mutable_node() = Drained();
  EXPECT_EQ(DrainText(response, true, {}), "w0 would be drained\n  nothing runs there\n");
  response.add_effects()->set_job("job-1");
  response.mutable_effects(0)->set_effect("rank 1 moves to c");
  EXPECT_EQ(DrainText(response, false, {}),
            "w0 is DRAINING: drained (swap) by ann: its fan is loud\n"
            "  job-1: rank 1 moves to c\n");
  EXPECT_THAT(DrainLine(response.node(), {}), HasSubstr("; still there: job-1"));
}

TEST(HistoryTableTest, EventsOldestFirst) {
  const std::string table = HistoryTable(Parsed<v1::NodeHistory>(R"(
    events { time { seconds: 940 } state: NODE_DRAINING who: "ann" what: "drain (swap): loud" }
    events { time { seconds: 950 } state: NODE_DRAINED who: "controller" what: "nothing runs" }
  )"),
                                         kNow, {});
  EXPECT_THAT(table, HasSubstr("DRAINING  ann         drain (swap): loud\n"));
}

TEST(CheckTableTest, MediansBesideTheValueAndTheVerdict) {
  const std::string table = CheckTable(Parsed<v1::NodeCheckResult>(R"(
    id: 2 measurements { name: "gemm" value: 70 unit: "GFLOP/s" more_is_better: true
                         own_median: 100 peer_median: 140 bad: true }
    measurements { name: "disk_write" value: 1.5 unit: "GB/s" more_is_better: true }
  )"),
                                       {});
  EXPECT_THAT(table, HasSubstr("70 GFLOP/s  100 GFLOP/s (-30 %)  140 GFLOP/s (-50 %)  bad\n"));
  EXPECT_THAT(table, HasSubstr("disk_write"));
  EXPECT_EQ(CheckTable(Parsed<v1::NodeCheckResult>(R"(error: "no disk")"), {}),
            "could not be measured: no disk\n");
}

TEST(CheckTableTest, NamesThePeerAndTellsWhatCouldNotBeMeasured) {
  const std::string table = CheckTable(Parsed<v1::NodeCheckResult>(R"(
    peer: "w2" error: "no disk"
    measurements { name: "pair_latency" value: 41.5 unit: "us" }
    measurements { name: "gemm" value: 70 unit: "GFLOP/s" more_is_better: true }
  )"),
                                       {});
  EXPECT_THAT(table, HasSubstr("pair_latency to w2     41.5 us"));
  EXPECT_THAT(table, HasSubstr("\ngemm "));
  EXPECT_THAT(table, HasSubstr("\ncould not be measured: no disk\n"));
}

TEST(AutomationPageTest, PauseHasAnOwnerAndAReason) {
  const std::string active =
      AutomationPage(Parsed<v1::AutomationStatus>("max_share: 0.25"), kNow, {});
  EXPECT_THAT(active, HasSubstr("Automation: active\n"));
  EXPECT_THAT(active, HasSubstr("at more than 25.0 % of the nodes\n"));
  EXPECT_THAT(active, Not(HasSubstr("Reason:")));
  const std::string paused = AutomationPage(
      Parsed<v1::AutomationStatus>(
          R"(paused: true owner: "brake" reason: "2 of 4" since { seconds: 900 } draining: "a")"),
      kNow, {});
  EXPECT_THAT(paused, HasSubstr("By:         brake\n"));
  EXPECT_THAT(paused, HasSubstr("Drains:     a\n"));
}

}  // namespace
}  // namespace paceline
