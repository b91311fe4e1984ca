// When jobs that count as large are looked at as a whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/cluster/cluster.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const JobId kJob("job-1");

// A job of two ranks that recovers, with at least a second between looks at it.
class ClusterLooksTest : public ::testing::Test {
 protected:
  ClusterLooksTest() : cluster_(Options()) {
    for (const char* node : {"a", "b"}) cluster_.Step(NodeConnected{Facts(node), {}}, At(0));
    JobRequest request = PlayedRequest();
    request.recovery.max_failures = 3;
    cluster_.Step(JobSubmitted{request}, At(0));
    for (const int rank : {0, 1}) Tell(rank, 0, At(0));
  }

  static Cluster::Options Options() {
    Cluster::Options options;
    options.looks.per_rank = absl::Milliseconds(500);
    return options;
  }

  const Job& job() { return cluster_.jobs().at(kJob); }

  Actions Tell(int rank, int64_t step, Moment now, std::optional<FailureKind> end = std::nullopt) {
    TrainerReport report =
        PlayedReport(job(), rank, end.has_value() ? TrainerState::kExited : TrainerState::kRunning);
    report.progress.step = step;
    if (end.has_value()) {
      report.exit = TrainerExit();
      report.exit->failure = *end;
    }
    return cluster_.Step(NodeReported{job().ranks[static_cast<size_t>(rank)].slot.node, {report}},
                         now);
  }

  Cluster cluster_;
};

TEST_F(ClusterLooksTest, ProgressWaitsForTheNextTurn) {
  EXPECT_THAT(Tell(0, 1, At(10)).show_jobs, ElementsAre(kJob));
  EXPECT_THAT(Tell(1, 1, At(10.2)).show_jobs, IsEmpty());
  EXPECT_THAT(Tell(1, 1, At(11)).show_jobs, ElementsAre(kJob)) << "nothing is new in this report";
  EXPECT_THAT(Tell(1, 1, At(13)).show_jobs, IsEmpty());
}

TEST_F(ClusterLooksTest, ProgressIsLookedAtWhenNoReportComes) {
  Tell(0, 1, At(10));
  Tell(1, 1, At(10.2));
  EXPECT_EQ(cluster_.NextDeadline(), At(11.1).steady);
  EXPECT_THAT(cluster_.Step(TimePassed{}, At(11.1)).show_jobs, ElementsAre(kJob));
}

TEST_F(ClusterLooksTest, EndOfARankIsStoredBeforeItsTurn) {
  Tell(0, 1, At(10));
  const Actions actions = Tell(1, 1, At(10.2), FailureKind::kNone);
  EXPECT_THAT(actions.store_jobs, ElementsAre(kJob));
  EXPECT_THAT(actions.send_plans, ElementsAre(job().ranks[1].slot.node));
  EXPECT_THAT(actions.show_jobs, IsEmpty());
}

// Otherwise another job could take its place first.
TEST_F(ClusterLooksTest, LossIsLookedAtAtOnce) {
  Tell(0, 1, At(10));
  const Actions actions = Tell(1, 1, At(10.2), FailureKind::kSignal);
  EXPECT_NE(job().state, JobState::kRunning);
  EXPECT_THAT(actions.changed_jobs, ElementsAre(kJob));
}

}  // namespace
}  // namespace paceline
