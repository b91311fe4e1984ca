#include "controller/core/recovery.h"

#include <gtest/gtest.h>

#include "controller/core/testing/member_job.h"

namespace paceline {
namespace {

TEST(RecoveryTest, NewTrainerTakesTheRankOfOneThatWasKilled) {
  MemberJob played;
  Job& job = played.job;
  played.places.Add("e");
  played.End(played.Id(2), 5);
  EXPECT_EQ(job.state, JobState::kRecovering);
  EXPECT_EQ(job.generation, Generation(2));
  EXPECT_EQ(played.Nodes(), "abed");
  EXPECT_EQ(played.Id(2), (TrainerId{JobId("job-1"), Generation(2), Rank(2)}));
  EXPECT_EQ(played.Id(3), (TrainerId{JobId("job-1"), Generation(1), Rank(3)}))
      << "survivors keep their processes";
  EXPECT_EQ(job.plan.epoch, PlanEpoch(2));
  EXPECT_EQ(MembershipOf(job, job.ranks[3]).store_address, "") << "the newcomer is not ready";
  EXPECT_FALSE(MembershipOf(job, job.ranks[3]).planned);
  played.Ready(played.Id(2), 6);
  EXPECT_NE(MembershipOf(job, job.ranks[3]).store_address, "");
  played.TrainAll(7, 11);
  EXPECT_EQ(job.state, JobState::kRunning);
  ASSERT_EQ(job.recovery.history.size(), 1U);
  EXPECT_EQ(job.recovery.history[0].reason,
            "rank 2 on c: killed by SIGKILL; a new trainer on e takes seat 2");
  EXPECT_EQ(job.recovery.history[0].step, 11);
  EXPECT_EQ(job.recovery.history[0].ended, At(7).wall);
}

}  // namespace
}  // namespace paceline
