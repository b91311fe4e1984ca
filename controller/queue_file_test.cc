#include "controller/queue_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;

std::string Problems(const std::string& yaml) {
  const absl::StatusOr<Queues> queues = ParseQueues(yaml, "q.yaml");
  EXPECT_EQ(queues.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(queues.status().message());
}

TEST(QueueFileTest, QueuesHavePrioritiesAndQuotas) {
  const absl::StatusOr<Queues> queues = ParseQueues(
      "urgent: {priority: 10, gpus: 64, submitter_priority: 20}\nnight:\n  priority: -5\n  slots: "
      "0\nplain:\n",
      "q.yaml");
  ASSERT_TRUE(queues.ok()) << queues.status();
  EXPECT_EQ(queues->size(), 4u);
  EXPECT_EQ(queues->at("urgent").priority, 10);
  EXPECT_EQ(queues->at("urgent").gpus, 64);
  EXPECT_FALSE(queues->at("urgent").slots.has_value());
  EXPECT_EQ(queues->at("urgent").submitter_priority, 20);
  EXPECT_EQ(queues->at("night").slots, 0);
  EXPECT_EQ(queues->at("night").submitter_priority, 0);
  EXPECT_EQ(queues->at("plain").priority, 0);
  EXPECT_FALSE(queues->at(kDefaultQueue).slots.has_value()) << "is always there";
}

TEST(QueueFileTest, DefaultQueueCanHaveAQuota) {
  const absl::StatusOr<Queues> queues = ParseQueues("default: {slots: 4}", "q.yaml");
  ASSERT_TRUE(queues.ok()) << queues.status();
  EXPECT_EQ(queues->at(kDefaultQueue).slots, 4);
}

TEST(QueueFileTest, EveryProblemIsToldWithItsPlace) {
  const std::string problems = Problems(
      "Urgent: {}\nnight: {slots: -1, gpu: 3}\nday: [1]\nnight: {}\nlate: {priority: \"1\"}\n"
      "far: {submitter_priority: 1001}\n");
  EXPECT_THAT(problems, HasSubstr("q.yaml:1:1: \"Urgent\" is no name of a queue"));
  EXPECT_THAT(problems, HasSubstr("q.yaml:2:16: night.slots is \"-1\"; allowed"));
  EXPECT_THAT(problems, HasSubstr("q.yaml:2:20: unknown key \"gpu\" in night; known are"));
  EXPECT_THAT(problems, HasSubstr("q.yaml:3:6: day takes a group"));
  EXPECT_THAT(problems, HasSubstr("q.yaml:4:1: the queue night is given twice"));
  EXPECT_THAT(problems, HasSubstr("q.yaml:5:18: late.priority is \"1\""));
  EXPECT_THAT(problems, HasSubstr("q.yaml:6:27: far.submitter_priority is \"1001\""));
  EXPECT_THAT(Problems("a: ["), HasSubstr("q.yaml:"));
}

TEST(QueueFileTest, MissingFileIsNamed) {
  const absl::Status status = ReadQueueFile("/nowhere/queues.yaml").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/queues.yaml"));
}

}  // namespace
}  // namespace paceline
