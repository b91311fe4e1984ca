#include "cli/view/job/job_table.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Job Parsed(const std::string& text) {
  v1::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text;
  return job;
}

std::vector<v1::Job> Jobs() {
  return {
      Parsed("id: 'job-a' state: RUNNING restarts: 1 submitter: 'ann' create_time { seconds: 900 } "
             "spec { name: 'one' ranks: 4 steps: 9 queue: 'urgent' model { resnet18 {} } } "
             "ranks { node: 'w1' } ranks { node: 'w0' } ranks { node: 'w1' }"),
      Parsed("id: 'job-b' state: QUEUED create_time { seconds: 940 } reason: 'no slots' "
             "spec { name: 'two' ranks: 2 steps: 9 }"),
      Parsed("id: 'job-c' state: QUEUED create_time { seconds: 880 } reason: 'quota' "
             "spec { name: 'three' ranks: 2 steps: 9 }"),
      Parsed("id: 'job-d' state: FAILED spec { name: 'four' queue: 'gone' }")};
}

TEST(JobTableTest, WideHasMoreColumns) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_THAT(JobTable(Jobs(), now, {}), Not(HasSubstr("QUEUE ")));
  PageStyle wide;
  wide.wide = true;
  const std::string table = JobTable(Jobs(), now, wide);
  EXPECT_THAT(table,
              HasSubstr("QUEUE    SUBMITTER  MODEL     NODES  RESTARTS         AGE  REASON"));
  EXPECT_THAT(table, HasSubstr("urgent   ann        resnet18  w0,w1         1  1 min 40 s  -"));
}

TEST(JobTableTest, ALossThatIsNotKnownIsNoNumber) {
  std::vector<v1::Job> jobs = Jobs();
  jobs[0].mutable_progress()->set_step(7);
  EXPECT_THAT(JobTable(jobs, absl::FromUnixSeconds(1000), {}), ContainsRegex("7/9 +- +0.00"));
  jobs[0].mutable_progress()->set_loss(0.5);
  EXPECT_THAT(JobTable(jobs, absl::FromUnixSeconds(1000), {}), ContainsRegex("7/9 +0.5000 +0.00"));
}

TEST(JobTableTest, WideShowsLabelsIfThereAreAny) {
  std::vector<v1::Job> jobs = Jobs();
  (*jobs[1].mutable_spec()->mutable_labels())["team"] = "vision";
  (*jobs[1].mutable_spec()->mutable_labels())["model"] = "llama";
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_THAT(JobTable(jobs, now, {}), Not(HasSubstr("LABELS")));
  PageStyle wide;
  wide.wide = true;
  EXPECT_THAT(JobTable(jobs, now, wide), HasSubstr("model=llama,team=vision  no slots"));
}

TEST(JobTableTest, RanksAreThoseThatAJobHasNow) {
  std::vector<v1::Job> jobs = Jobs();
  jobs[0].mutable_spec()->mutable_recovery()->set_min_ranks(2);
  jobs[0].mutable_spec()->mutable_recovery()->set_max_ranks(8);
  const std::string table = JobTable(jobs, absl::FromUnixSeconds(1000), {});
  EXPECT_THAT(table, HasSubstr("RUNNING  3 (2..8)"));
  EXPECT_THAT(table, HasSubstr("QUEUED          2"));
}

TEST(JobTableTest, SavesThatFailAreAReason) {
  std::vector<v1::Job> jobs = Jobs();
  jobs[1].mutable_checkpoints()->set_last_error("disk full");
  EXPECT_THAT(JobTable(jobs, absl::FromUnixSeconds(1000), {}),
              HasSubstr("checkpoints cannot be saved (there is none): disk full; no slots\n"));
}

TEST(JobTableTest, CopiesThatAreLateAreAReason) {
  std::vector<v1::Job> jobs = Jobs();
  jobs[1].mutable_copies()->set_trouble("copies are late");
  EXPECT_THAT(JobTable(jobs, absl::FromUnixSeconds(1000), {}),
              HasSubstr("copies are late; no slots\n"));
}

TEST(JobTableTest, HeadingsCanBeLeftOut) {
  PageStyle bare;
  bare.headings = false;
  EXPECT_THAT(JobTable(Jobs(), absl::FromUnixSeconds(1000), bare), Not(HasSubstr("NAME")));
}

TEST(QueueTableTest, CountsJobsThatHaveNotEndedAndTheRanksThatTheyHave) {
  EXPECT_EQ(QueueTable(Jobs(), absl::FromUnixSeconds(1000), {}),
            "QUEUE    WAITING  TRAINING  RANKS      OLDEST  JOB    WAITS FOR\n"
            "default        2         0      0  2 min 00 s  job-c  quota\n"
            "urgent         0         1      3           -  -      -\n");
}

}  // namespace
}  // namespace paceline
