#include "absl/strings/str_split.h"
#include "cli/text/sanitize.h"
#include "cli/view/straggler/remedy_page.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1700000185);

v1::RemedyDecision Decision(const std::string& text) {
  v1::RemedyDecision decision;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &decision)) << text;
  return decision;
}

v1::RemedyDecision HotSwap() {
  return Decision(R"(
      id: 3 kind: REMEDY_HOT_SWAP state: DECISION_HELPED time { seconds: 1700000000 } by: "ann"
      summary: "hot-swap of rank 5 on n3" generation: 2 plan_version: 3 step: 330 rank: 5 node: "n3"
      verdict { kind: VERDICT_PERSISTENT rank: 5 node: "n3" since_step: 200 slowdown: 1.52
                slowdown_low: 1.5 slowdown_high: 1.54 cause: CAUSE_DATA lost_share: 0.3
                episodes: 2 }
      before_s: 0.1523 before_error_s: 0.002 lost_s: 25
      options { kind: REMEDY_HOT_SWAP cost_s: 0.3 step_s: 0.1014 total_s: 0.3 }
      options { kind: REMEDY_DRAIN cost_s: 30 step_s: 0.1014 total_s: 300 }
      reason: "it costs less than what is lost" cost_s: 0.3 predicted_s: 0.1014 paid_s: 0.5
      measured_s: 0.104 done_generation: 3 done_plan_version: 4 outcome: "0.104 s a step over 100 steps"
      end_time { seconds: 1700000120 })");
}

v1::RemedyDecision Ladder() {
  return Decision(R"(
      id: 4 kind: REMEDY_LADDER state: DECISION_ADVISED time { seconds: 1700000180 }
      summary: "ladder 2:8,8:all" generation: 3 plan_version: 4 before_s: 0.2 predicted_s: 0.1
      ladder { period: 2 size: 8 format: WIRE_FORMAT_FP32 }
      ladder { period: 8 level: SCOPE_ALL format: WIRE_FORMAT_FP32 }
      plan { current { step_s: 0.2 communication_s: 0.01 speedup: 1 equivalent_period: 1 }
             candidates { ladder { period: 2 size: 8 } ladder { period: 8 level: SCOPE_ALL }
                          step_s: 0.1 communication_s: 0.002 speedup: 2 equivalent_period: 4.2 } })");
}

std::string Checked(const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(DisplayWidth(line), 80) << line;
  }
  return text;
}

TEST(DecisionPageTest, TableHasARowEach) {
  v1::ListDecisionsResponse decisions;
  *decisions.add_decisions() = HotSwap();
  *decisions.add_decisions() = Ladder();
  const std::string table = DecisionTable(decisions, kNow, {120, false});
  EXPECT_THAT(table, HasSubstr("ID         AGO  WHAT                      STATE    BY   PREDICTED  "
                               "MEASURED  OUTCOME"));
  EXPECT_THAT(table, HasSubstr(" 3  3 min 05 s  hot-swap of rank 5 on n3  helped   ann     101 ms  "
                               "  104 ms  0.104 s a step"));
  EXPECT_THAT(table, HasSubstr(" 4       5.0 s  ladder 2:8,8:all          advised  -       100 ms  "
                               "       -  -"));
  EXPECT_THAT(Checked(DecisionTable(decisions, kNow, {80, false})), HasSubstr("helped   ann"));
}

TEST(DecisionPageTest, PageHasAllThatTheDecisionRestsOn) {
  const std::string page = Checked(DecisionPage(HotSwap(), kNow, {80, false}));
  for (const char* line :
       {"Decision:   3\n", "What:       hot-swap of rank 5 on n3\n", "State:      helped\n",
        "By:         ann\n", "Why:        it costs less than what is lost\n",
        "At:         generation 2, plan version 3, step 330\n",
        "Verdict:    persistent since step 200: 1.52 (1.50-1.54) times its peers, by\n"
        "            data; 30.0 % of the job's time lost; slow 2 times\n",
        "Lost:       25 s until it was advised\n", "Cost:       300 ms expected, 500 ms paid\n",
        "Step:       152 ms before (+-2 ms), 101 ms predicted (33 % shorter), 104 ms\n"
        "            measured (32 % shorter)\n",
        "Done in:    generation 3, plan version 4\n", "Outcome:    0.104 s a step over 100 steps\n",
        "\nWhat could be done:\nREMEDY      COST    STEP  COST UNTIL THE END\n"
        "hot-swap  300 ms  101 ms               0.3 s\n"
        "drain       30 s  101 ms          5 min 00 s\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  EXPECT_THAT(page, Not(HasSubstr("Ladder")));
}

TEST(DecisionPageTest, PageOfALadderHasThePredictions) {
  const std::string page = Checked(DecisionPage(Ladder(), kNow, {80, false}));
  EXPECT_THAT(page, HasSubstr("Ladder:     2:8,8:all instead of synchronous\n"));
  EXPECT_THAT(page,
              HasSubstr("\nLadders, as predicted:\n"
                        "LADDER                   STEP  COMMUNICATION  SPEED-UP  EQUIVALENT "
                        "PERIOD\n"
                        "synchronous (current)  200 ms          10 ms      1.00               "
                        "1.00\n"
                        "2:8,8:all              100 ms           2 ms      2.00               "
                        "4.20\n"));
  EXPECT_THAT(page, Not(HasSubstr("Verdict")));
  EXPECT_THAT(page, Not(HasSubstr("Outcome")));
}

TEST(DecisionPageTest, LineSaysWhatWasOrdered) {
  v1::RemedyDecision decision = HotSwap();
  decision.set_state(v1::DECISION_ORDERED);
  EXPECT_EQ(DecisionLine(decision, {}), "advice 3 is ordered by ann: hot-swap of rank 5 on n3");
}

TEST(DecisionPageTest, PageOfAStrategyComparesThem) {
  const std::string page = Checked(DecisionPage(Decision(R"(
      id: 5 kind: REMEDY_STRATEGY state: DECISION_CHECKING time { seconds: 1700000180 }
      summary: "strategy slipstream free" generation: 1 plan_version: 1 before_s: 0.2 predicted_s: 0.08
      strategy { slipstream { mode: SLIPSTREAM_FREE
                              window { min_steps: 1 max_steps: 64 max_cap: 256 } } }
      former_strategy { ddp {} }
      strategy_plan { current { step_s: 0.2 }
                      ddp { step_s: 0.2 share: 0.39 used: 1 }
                      slipstream { mode: SLIPSTREAM_DROP step_s: 0.09 share: 0.88 used: 0.98 }
                      slipstream { mode: SLIPSTREAM_FREE step_s: 0.08 share: 0.98 used: 1
                                   window_steps: 2 } })"),
                                                kNow, {80, false}));
  for (const char* line :
       {"Strategy:   slipstream free, window 1:64:256 instead of ddp\n",
        "Strategies, as predicted:\n", "ddp (current)  200 ms", "drop            90 ms",
        "free            80 ms        98.0 %     2.0  100.0 %"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

}  // namespace
}  // namespace paceline
