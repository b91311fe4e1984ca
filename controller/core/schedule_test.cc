#include "controller/core/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/testing/small_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class ScheduleTest : public ::testing::Test {
 protected:
  const Wait& wait(const char* job) { return cluster_.last.waits.at(JobId(job)); }

  SmallCluster cluster_;
};

TEST_F(ScheduleTest, QueueGoesBeforeJobPriorityBeforeSubmission) {
  cluster_.queues = {{"low", {-1}}, {"high", {1}}, {"default", {}}};
  cluster_.AddNode("a", 1);
  cluster_.Submit("1", 1, 9, "low");
  cluster_.Submit("2", 1);
  cluster_.Submit("3", 1);
  cluster_.Submit("4", 1, 5);
  cluster_.Submit("5", 1, -5, "high");
  std::string order;
  for (int i = 0; i < 5; ++i) {
    cluster_.Pass();
    order += cluster_.Started();
    cluster_.End(cluster_.Started());
  }
  EXPECT_EQ(order, "54231");
}

TEST_F(ScheduleTest, LargeJobStartsAlthoughSmallOnesKeepComing) {
  cluster_.AddNode("a", 2);
  cluster_.AddNode("b", 2);
  for (const char* job : {"s1", "s2", "s3", "s4"}) cluster_.Submit(job, 1);
  cluster_.Pass();
  cluster_.Submit("large", 3);
  for (int i = 5; i < 12 && cluster_["large"].state == JobState::kQueued; ++i) {
    cluster_.Submit(absl::StrCat("s", i), 1);
    cluster_.End(absl::StrCat("s", i - 4));
    cluster_.Pass();
  }
  EXPECT_EQ(cluster_["large"].state, JobState::kRunning);
}

}  // namespace
}  // namespace paceline
