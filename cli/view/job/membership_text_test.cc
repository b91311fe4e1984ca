#include "cli/view/job/job_text.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

v1::Job Job(const std::string& text) {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

TEST(MembershipTextTest, ShrunkJobTellsHowManyRanksItHas) {
  EXPECT_EQ(OtherRanksText(Job("spec { ranks: 2 } ranks {} ")), "1 of 2 ranks");
  EXPECT_EQ(OtherRanksText(Job("spec { ranks: 2 } ranks {} ranks {}")), "");
  EXPECT_EQ(OtherRanksText(Job("spec { ranks: 2 }")), "") << "it has not been placed";
}

TEST(MembershipTextTest, GrownJobTellsHowManyRanksItHasBeyondThoseThatItWants) {
  EXPECT_EQ(OtherRanksText(Job("spec { ranks: 2 } ranks {} ranks {} ranks {}")),
            "3 ranks, 1 more than the 2 wanted");
}

TEST(MembershipTextTest, RanksAreThoseThatAJobHasNow) {
  EXPECT_EQ(RanksText(Job("spec { ranks: 2 }")), "2") << "it has not been placed";
  EXPECT_EQ(RanksText(Job("spec { ranks: 2 } ranks {} ranks {}")), "2");
  EXPECT_EQ(RanksText(Job("spec { ranks: 2 } ranks {}")), "1 of 2");
  const std::string elastic = "spec { ranks: 2 recovery { min_ranks: 1 max_ranks: 4 } } ";
  EXPECT_EQ(RanksText(Job(elastic)), "2 (1..4)");
  EXPECT_EQ(RanksText(Job(elastic + "ranks {}")), "1 (1..4)");
  EXPECT_EQ(RanksText(Job(elastic + "ranks {} ranks {} ranks {}")), "3 (1..4)");
}

TEST(MembershipTextTest, ChangesAreListedWithTheTimeTheyTook) {
  const v1::Job job = Job(R"(
      generation: 4 state: RUNNING
      membership_changes { generation: 2 reason: "rank 2 on c: killed" begin_time { seconds: 100 }
                           end_time { seconds: 100 nanos: 250000000 } ranks_before: 4
                           ranks_after: 3 step: 41 }
      membership_changes { generation: 3 reason: "seat 2\nis filled" begin_time { seconds: 160 }
                           ranks_before: 3 ranks_after: 4 planned: true }
      membership_changes { generation: 4 begin_time { seconds: 170 } })");
  const std::string table = ChangeTable(job, absl::FromUnixSeconds(220), 200, false);
  EXPECT_THAT(table, HasSubstr("failure  rank 2 on c: killed"));
  EXPECT_THAT(table, HasSubstr("0.25 s"));
  EXPECT_THAT(table, HasSubstr("4 to 3"));
  EXPECT_THAT(table, HasSubstr("under way"));
  EXPECT_THAT(table, HasSubstr("not done")) << "the next began before it was";
  EXPECT_THAT(table, HasSubstr("planned  seat 2"));
  EXPECT_EQ(ChangeTable(Job(""), absl::FromUnixSeconds(220), 200, false), "");
}

}  // namespace
}  // namespace paceline
