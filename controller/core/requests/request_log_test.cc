#include "controller/core/requests/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

TEST(RequestLogTest, ForgetsTheOldestWhenThereAreTooMany) {
  RequestLog log(3);
  log.Add("second", {2, JobId("job-1"), kNow + absl::Seconds(2)});
  log.Add("first", {1, JobId("job-1"), kNow + absl::Seconds(1)});
  EXPECT_THAT(log.Expire(kNow + absl::Seconds(3)), IsEmpty()) << "there is room for one";
  log.Add("third", {3, JobId("job-1"), kNow + absl::Seconds(3)});
  EXPECT_EQ(log.Check("first", 1), RequestLog::Verdict::kRepeat);
  EXPECT_THAT(log.Expire(kNow + absl::Seconds(4)), ElementsAre("first"));
  EXPECT_EQ(log.Check("first", 1), RequestLog::Verdict::kNew);
  EXPECT_EQ(log.Check("second", 2), RequestLog::Verdict::kRepeat);
  EXPECT_EQ(log.Check("third", 3), RequestLog::Verdict::kRepeat);
}

// As left by a version that had no limit.
TEST(RequestLogTest, ForgetsAllThatAreTooManyAtOnce) {
  RequestLog log(3);
  for (int i = 0; i < 6; ++i) {
    log.Add(std::to_string(i), {1, JobId("job-1"), kNow + absl::Seconds(i)});
  }
  EXPECT_THAT(log.Expire(kNow + absl::Seconds(6)), ElementsAre("0", "1", "2", "3"));
  EXPECT_EQ(log.Check("5", 1), RequestLog::Verdict::kRepeat);
}

}  // namespace
}  // namespace paceline
