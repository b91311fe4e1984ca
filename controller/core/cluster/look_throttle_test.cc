#include "controller/core/cluster/look_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "controller/core/cluster/cluster.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const JobId kLarge("large");  // Of 1,000 ranks: 20 ms.
const JobId kSmall("small");

absl::Time Ms(double ms) { return absl::UnixEpoch() + absl::Milliseconds(ms); }

class LookThrottleTest : public ::testing::Test {
 protected:
  bool Reports(double ms, bool news = true) {
    return throttle_.MayLook(kLarge, 1000, news, Ms(ms));
  }

  LookThrottle throttle_{LookThrottle::Options()};
};

TEST_F(LookThrottleTest, SmallJobIsLookedAtAtEachReportWithNews) {
  EXPECT_TRUE(throttle_.MayLook(kSmall, 249, true, Ms(0)));
  EXPECT_TRUE(throttle_.MayLook(kSmall, 249, true, Ms(0)));
  EXPECT_FALSE(throttle_.MayLook(kSmall, 249, false, Ms(9)));
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(LookThrottleTest, LargeJobIsLookedAtOnceInItsPeriod) {
  EXPECT_TRUE(Reports(0)) << "the first time there is nothing to wait for";
  EXPECT_FALSE(Reports(1));
  EXPECT_FALSE(Reports(19));
  EXPECT_TRUE(Reports(20));
  EXPECT_FALSE(Reports(39));
}

TEST_F(LookThrottleTest, WhatWaitsIsLookedAtByAReportWithoutNews) {
  EXPECT_FALSE(Reports(0, /*news=*/false));
  EXPECT_TRUE(Reports(1));
  EXPECT_FALSE(Reports(2));
  EXPECT_FALSE(Reports(20, /*news=*/false));
  EXPECT_TRUE(Reports(21, /*news=*/false));
  EXPECT_FALSE(Reports(60, /*news=*/false)) << "nothing has come since";
}

TEST_F(LookThrottleTest, WhatWaitsIsDueWhenNoReportComes) {
  Reports(0);
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
  Reports(1);
  Reports(2);
  EXPECT_EQ(throttle_.NextDeadline(), Ms(120));
  EXPECT_THAT(throttle_.TakeDue(Ms(119)), IsEmpty());
  EXPECT_THAT(throttle_.TakeDue(Ms(120)), ElementsAre(kLarge));
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_FALSE(Reports(121, /*news=*/false)) << "it has been looked at";
}

TEST_F(LookThrottleTest, OfAJobThatIsForgottenNothingIsDue) {
  Reports(0);
  Reports(1);
  throttle_.Forget(kLarge);
  EXPECT_EQ(throttle_.NextDeadline(), absl::InfiniteFuture());
}

// What the cluster does by it.

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
