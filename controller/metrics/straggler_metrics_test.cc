#include "controller/metrics/straggler_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/stragglers/job/testing/straggler_testing.h"
#include "controller/testing/played_metrics.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StragglerMetricsTest : public PlayedMetrics {
 protected:
  StragglerMetricsTest() {
    Join({"a", "b"});
    Train(1);
  }
  void Decide(DecisionState state, double measured_s = 0, double without_s = 0) {
    RemedyDecision decision;
    decision.id = 1;
    decision.kind = RemedyKind::kHotSwap;
    decision.state = state;
    decision.before.seconds = 0.75;
    decision.predicted_s = 0.5;
    decision.measured_s = measured_s;
    decision.without_s = without_s;
    metrics_.Count({{JobId("job-1"), {transition::DecisionChanged{decision}}}});
  }
  std::string Outcome(const std::string& outcome) {
    return Value("paceline_remedies_total{job_id=\"job-1\",outcome=\"" + outcome + "\"}");
  }
  std::string StepSeconds(const std::string& what) {
    return Value("paceline_remedy_step_seconds{job_id=\"job-1\",remedy=\"hot_swap\",what=\"" +
                 what + "\"}");
  }
};

TEST_F(StragglerMetricsTest, CountersBeginAtZero) {
  Refresh(2);
  for (const char* verdict : {"suspect", "transient", "persistent", "recovered", "node", "group"}) {
    EXPECT_EQ(Value(std::string("paceline_straggler_verdicts_total{job_id=\"job-1\",verdict=\"") +
                    verdict + "\"}"),
              "0");
  }
  for (const char* outcome : {"advised", "ordered", "helped", "did_not_help", "unchecked", "done",
                              "failed", "withdrawn"}) {
    EXPECT_EQ(Outcome(outcome), "0") << outcome;
  }
  EXPECT_EQ(Value("paceline_straggler_suspects{job_id=\"job-1\"}"), "0");
}

TEST_F(StragglerMetricsTest, DecisionCountsOnceInEachState) {
  Decide(DecisionState::kAdvised);
  Decide(DecisionState::kOrdered);
  Decide(DecisionState::kChecking);
  EXPECT_EQ(StepSeconds("measured"), "");
  Decide(DecisionState::kHelped, 0.625);
  EXPECT_EQ(Outcome("advised"), "1");
  EXPECT_EQ(Outcome("ordered"), "1");
  EXPECT_EQ(Outcome("helped"), "1");
  EXPECT_EQ(StepSeconds("before"), "0.75");
  EXPECT_EQ(StepSeconds("predicted"), "0.5");
  EXPECT_EQ(StepSeconds("measured"), "0.625");
}

TEST_F(StragglerMetricsTest, RemedyIsHeldAgainstTheSameStepsWithoutIt) {
  Decide(DecisionState::kDidNotHelp, 1.25, 1.5);
  EXPECT_EQ(StepSeconds("before"), "1.5");
}

TEST_F(StragglerMetricsTest, DecisionOfAnUnknownJobLeavesNoSeries) {
  metrics_.Count({{JobId("job-9"), {transition::DecisionChanged{}}}});
  EXPECT_THAT(Text(), Not(HasSubstr("job-9")));
}

TEST(SuspectsTest, SlowRankIsShownUntilItIsWellAgain) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  ControllerMetrics metrics("1.0");
  metrics.ShowCluster(*watched.cluster, watched.now);
  const auto text = [&] {
    for (const JobId& id : metrics.RefreshNodes(*watched.cluster)) {
      metrics.RefreshJob(id, *watched.cluster, *watched.stragglers, watched.now);
    }
    return metrics.Text(0);
  };
  watched.Train(100, Healthy);
  EXPECT_THAT(text(), HasSubstr("paceline_straggler_suspects{job_id=\"job-1\"} 0\n"));
  const std::string slow = watched.NodeOf(2);
  watched.Train(200, SlowFrom(slow, 100));
  const std::string found = text();
  EXPECT_THAT(found, HasSubstr("paceline_straggler_suspects{job_id=\"job-1\"} 1\n"));
  EXPECT_THAT(found, HasSubstr("paceline_straggler_slowdown_ratio{cause=\"compute\",job_id="
                               "\"job-1\",node=\"" +
                               slow + "\",rank=\"2\"} 1."));
  const std::string suspects =
      "paceline_straggler_verdicts_total{job_id=\"job-1\",verdict=\"suspect\"} ";
  EXPECT_THAT(found, HasSubstr(suspects + "1\n"));
  watched.Train(400, Healthy);
  EXPECT_THAT(text(), HasSubstr("paceline_straggler_suspects{job_id=\"job-1\"} 0\n"));
  EXPECT_THAT(text(), Not(HasSubstr("paceline_straggler_slowdown_ratio{")));
  EXPECT_THAT(text(), HasSubstr(suspects + "1\n"));
}

TEST_F(StragglerMetricsTest, SeriesDisappearWithTheJob) {
  Decide(DecisionState::kHelped, 0.625);
  Tell(TrainerState::kExited, 5);
  Refresh(5 + absl::ToDoubleSeconds(kEndedJobSeries));
  EXPECT_THAT(Text(), Not(HasSubstr("job-1")));
}

}  // namespace
}  // namespace paceline
