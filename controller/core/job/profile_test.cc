#include "controller/core/job/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

const NodeName kNode("a");

class ProfileTest : public ::testing::Test {
 protected:
  ProfileTest() {
    JobRequest request{JobId("job-1"), "digits", 3, Device::kCpu, "spec", 1000, {false}, ""};
    job_ = NewJob(std::move(request), 1, At(0));
    PlaceJob(job_, {{kNode, 0}, {kNode, 1}, {kNode, 2}}, At(1));
  }

  // The job has trained since At(2).
  void Report(int rank, int64_t step, double step_s, int64_t profile = 0) {
    TrainerReport report = job_.ranks[static_cast<size_t>(rank)].report;
    report.state = TrainerState::kRunning;
    report.progress.step = step;
    report.progress.step_time = absl::Seconds(step_s);
    report.profile = {profile, profile == 0 ? "" : "done"};
    ApplyReport(job_, kNode, report, At(2));
  }

  void Run(int64_t step, double step_s) {
    for (int rank = 0; rank < 3; ++rank) Report(rank, step, step_s);
  }

  std::string Order(const ProfileOrder& order, double now = 2) {
    JobProfile profile;
    const std::optional<Refusal> refusal = MakeProfile(job_, order, At(now).wall, &profile);
    if (refusal.has_value()) return refusal->reason;
    job_.profile = profile;
    return "";
  }

  Job job_;
};

TEST_F(ProfileTest, BeginsTwoSecondsAheadOfTheFurthestRank) {
  Run(100, 0.1);
  Report(1, 102, 0.1);
  ASSERT_EQ(Order({}), "");
  EXPECT_EQ(job_.profile->id, 1);
  EXPECT_EQ(job_.profile->first_step, 122);
  EXPECT_EQ(job_.profile->steps, 3);
  EXPECT_THAT(job_.profile->ranks, ElementsAre(Rank(0), Rank(1), Rank(2)));
}

TEST_F(ProfileTest, ALatestStepThatStalledDoesNotBringItNearer) {
  Run(100, 4);
  ASSERT_EQ(Order({}, /*now=*/12), "");  // 100 steps in 10 s.
  EXPECT_EQ(job_.profile->first_step, 120);
}

TEST_F(ProfileTest, BeginsAtLeastFiveStepsAheadAndEndsWithTheJob) {
  Run(100, 10);
  ASSERT_EQ(Order({7, {}, false}), "");
  EXPECT_EQ(job_.profile->first_step, 105);
  EXPECT_EQ(job_.profile->steps, 7);
  job_.profile.reset();
  Run(992, 0.001);
  ASSERT_EQ(Order({}), "");
  EXPECT_EQ(job_.profile->first_step, 997);
  job_.profile.reset();
  Run(993, 0.001);
  EXPECT_EQ(Order({}), "TOO_FEW_STEPS_LEFT");
}

TEST_F(ProfileTest, NextOneWaitsForTheChosenRanksOnly) {
  Run(100, 0.1);
  ASSERT_EQ(Order({3, {2, 0, 2}, false}), "");
  EXPECT_THAT(job_.profile->ranks, ElementsAre(Rank(0), Rank(2)));
  EXPECT_TRUE(IsProfiled(job_, Rank(2)));
  EXPECT_FALSE(IsProfiled(job_, Rank(1)));
  Report(0, 200, 0.1, 1);
  EXPECT_EQ(Order({}), "PROFILE_PENDING");
  Report(2, 200, 0.1, 1);
  ASSERT_EQ(Order({3, {1}, false}), "");
  EXPECT_EQ(job_.profile->id, 2);
}

TEST_F(ProfileTest, ImpossibleOrdersAreRefusedWhateverTheJobDoes) {
  JobProfile profile;
  for (const ProfileOrder& order :
       {ProfileOrder{3, {0, 3}, false}, ProfileOrder{3, {-1}, false}, ProfileOrder{101, {}, false},
        ProfileOrder{-1, {}, false}, ProfileOrder{3, {}, true}}) {
    const std::optional<Refusal> refusal = MakeProfile(job_, order, At(2).wall, &profile);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->kind, Refusal::Kind::kArgument);
    EXPECT_STREQ(refusal->reason, "PROFILE_INVALID");
  }
  EXPECT_THAT(MakeProfile(job_, {3, {3}, false}, At(2).wall, &profile)->message,
              HasSubstr("has ranks 0 to 2, not 3"));
}

TEST_F(ProfileTest, OnlyARunningJobIsProfiled) { EXPECT_EQ(Order({}), "JOB_NOT_RUNNING"); }

}  // namespace
}  // namespace paceline
