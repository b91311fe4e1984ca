#include "controller/core/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1700000000);

TEST(RequestLogTest, TellsARepeatFromAnotherRequestWithTheSameId) {
  RequestLog log;
  EXPECT_EQ(log.Check("id", 7), RequestLog::Verdict::kNew);
  log.Add("id", {7, JobId("job-1"), kNow});
  EXPECT_EQ(log.Check("id", 7), RequestLog::Verdict::kRepeat);
  EXPECT_EQ(log.Find("id").job, JobId("job-1"));
  EXPECT_EQ(log.Check("id", 8), RequestLog::Verdict::kReused);
}

TEST(RequestLogTest, RemembersForADay) {
  RequestLog log;
  log.Add("old", {1, JobId("job-1"), kNow});
  log.Add("new", {2, JobId("job-2"), kNow + absl::Hours(1)});
  EXPECT_THAT(log.Expire(kNow + absl::Hours(24)), IsEmpty());
  EXPECT_THAT(log.Expire(kNow + absl::Hours(24) + absl::Seconds(1)), ElementsAre("old"));
  EXPECT_EQ(log.Check("old", 1), RequestLog::Verdict::kNew);
  EXPECT_EQ(log.Check("new", 2), RequestLog::Verdict::kRepeat);
}

}  // namespace
}  // namespace paceline
