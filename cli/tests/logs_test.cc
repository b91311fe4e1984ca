// `job logs` against a controller on a real socket.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/exit_codes.h"
#include "cli/rpc/client.h"
#include "cli/testing/command_test.h"
#include "cli/testing/digits_job.h"
#include "cli/testing/fake_errors.h"
#include "cli/verbs/job/rank_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using LogsTest = CommandTest;

v1::LogChunk Chunk(int64_t offset, const std::string& data) {
  v1::LogChunk chunk;
  chunk.set_offset(offset);
  chunk.set_data(data);
  return chunk;
}

// A chunk of the trainer of rank 0 that was started for this generation.
v1::LogChunk ChunkOf(int64_t generation, const std::string& node, int64_t offset,
                     const std::string& data) {
  v1::LogChunk chunk = Chunk(offset, data);
  chunk.mutable_trainer()->set_generation(generation);
  chunk.set_node(node);
  return chunk;
}

TEST_F(LogsTest, LogsOfAllRanksHaveTheirRankInFront) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{Chunk(0, "a\nb")}, grpc::Status::OK});
  controller_.AddLog(1, {{Chunk(0, "c\x1b[2J\n")}, grpc::Status::OK});
  EXPECT_THAT(Paceline({"job", "logs", kId}).out,
              AnyOf("[rank 0] a\n[rank 0] b\n[rank 1] c\\x1b[2J\n",
                    "[rank 1] c\\x1b[2J\n[rank 0] a\n[rank 0] b\n"))
      << "rank 0 is waited for, but not for long";
}

TEST_F(LogsTest, LinesOfANodeThatIsAwayAreMissingAndNotWaitedFor) {
  v1::Job job = JobIn(v1::RUNNING, 1, 3);
  for (int rank = 0; rank < 2; ++rank) job.mutable_ranks(rank)->set_node(rank == 0 ? "w0" : "w1");
  controller_.SetJobs({job});
  controller_.AddLog(0, {{}, Away("w1")});
  controller_.AddLog(1, {{Chunk(0, "c\n")}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", kId});
  EXPECT_EQ(ran.exit, kCliUnavailable);
  EXPECT_EQ(ran.out, "[rank 1] c\n");
  EXPECT_EQ(ran.err, "error: rank 0 on w0: not heard of; its lines are missing\n");
  EXPECT_THAT(controller_.logs(), SizeIs(2)) << "asked once";
}

TEST_F(LogsTest, FollowedLogOfANodeThatIsAwayGoesOnWhenItIsBackOrEndsWithTheJob) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{}, Away("w1")});
  controller_.AddLog(0, {{}, Away("w1")});
  controller_.AddLog(0, {{Chunk(0, "c\n")}, grpc::Status::OK});
  Ran ran = Paceline({"job", "logs", kId, "-f", "--rank", "0"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "c\n");
  EXPECT_EQ(ran.err, "rank 0: node w1 is not heard of; going on when it is back\n");

  controller_.SetJobs({JobIn(v1::FAILED, 1, 3)});
  controller_.AddLog(0, {{Chunk(0, "c\n")}, Away("w1")});
  ran = Paceline({"job", "logs", kId, "-f", "--rank", "0"});
  EXPECT_EQ(ran.exit, kCliUnavailable);
  EXPECT_THAT(ran.err, HasSubstr("not heard of; its lines are missing\n"));
}

TEST_F(LogsTest, NodeThatIsAwayIsWaitedForLongerThanTheControllerWouldBe) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{}, Away("w1")});
  controller_.AddLog(0, {{Chunk(0, "c\n")}, grpc::Status::OK});
  Client client({.server = controller_.address(), .timeout = absl::ZeroDuration()}, interrupt_);
  RankLog log;
  log.job_id = kId;
  log.follow = true;
  std::string text;
  log.each = [&](absl::string_view data) { absl::StrAppend(&text, data); };
  log.on_trainer = [](const std::string&) {};
  log.on_gap = [](int64_t) {};
  log.on_outage = [](const grpc::Status&) {};
  const grpc::Status status = ReadRankLog(client, log);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(text, "c\n");
}

TEST_F(LogsTest, LogsOfOneRankHaveNothingInFront) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(1, {{Chunk(0, "c\n")}, grpc::Status::OK});
  EXPECT_EQ(Paceline({"job", "logs", kId, "--rank", "1"}).out, "c\n");
}

TEST_F(LogsTest, LostLogStreamIsResumedWithoutLosingOrRepeatingAByte) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{Chunk(100, "one\ntw")}, Lost()});
  controller_.AddLog(0, {{Chunk(104, "two\nth")}, Lost()});
  controller_.AddLog(0, {{Chunk(110, "ree\n")}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "-f", kId, "--rank", "0", "--tail", "3"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "one\ntwo\nthree\n");
  EXPECT_THAT(ran.err, HasSubstr("rank 0: the controller at " + controller_.address() +
                                 " does not answer; going on when it is back\n"));
  ASSERT_THAT(controller_.logs(), SizeIs(3));
  EXPECT_EQ(controller_.logs()[0].tail_lines(), 3);
  EXPECT_EQ(controller_.logs()[1].tail_lines(), 0);
  EXPECT_EQ(controller_.logs()[1].offset(), 106);
  EXPECT_EQ(controller_.logs()[2].offset(), 110);
  EXPECT_TRUE(controller_.logs()[2].follow());
}

TEST_F(LogsTest, FollowedLogGoesOnWithTheTrainerThatTakesTheRank) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{ChunkOf(1, "w0", 100, "one\ntw"), ChunkOf(1, "w0", 106, "o\nlast wo"),
                          ChunkOf(2, "w3", 0, "new\n"), ChunkOf(2, "w3", 4, "newer\n")},
                         grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "-f", kId, "--rank", "0", "--tail", "3"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "one\ntwo\nlast wo\nnew\nnewer\n");
  EXPECT_EQ(ran.err, "rank 0 is now on w3\n") << "and nothing of a gap";
  ASSERT_THAT(controller_.logs(), SizeIs(1));
  EXPECT_TRUE(controller_.logs()[0].follow_rank());
  EXPECT_FALSE(controller_.logs()[0].has_trainer());
}

TEST_F(LogsTest, LogOfAnotherTrainerAfterAnOutageIsReadFromItsBeginning) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{ChunkOf(1, "w0", 0, "one\ntwo\n")}, Lost()});
  controller_.AddLog(0, {{ChunkOf(2, "w3", 0, "new\nne")}, Lost()});
  controller_.AddLog(
      0, {{ChunkOf(2, "w3", 6, "wer\n"), ChunkOf(3, "w4", 50, "third\n")}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "-f", kId, "--rank", "0"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "one\ntwo\nnew\nnewer\nthird\n");
  const std::vector<std::string> notes = absl::StrSplit(ran.err, '\n');
  EXPECT_THAT(notes, ElementsAre(HasSubstr("does not answer"), "rank 0 is now on w3",
                                 HasSubstr("does not answer"), "rank 0 is now on w4",
                                 "rank 0: 50 bytes are no longer kept", ""));
  const auto logs = controller_.logs();
  ASSERT_THAT(logs, SizeIs(3));
  EXPECT_EQ(logs[1].trainer().generation(), 1);
  EXPECT_EQ(logs[1].node(), "w0");
  EXPECT_EQ(logs[1].offset(), 8);
  EXPECT_EQ(logs[2].trainer().generation(), 2);
  EXPECT_EQ(logs[2].node(), "w3");
  EXPECT_EQ(logs[2].offset(), 6);
}

TEST_F(LogsTest, RotatedPartOfALogIsTold) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{Chunk(5000, "late\n")}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", kId, "--rank", "0"});
  EXPECT_THAT(ran.err, HasSubstr("5000 bytes are no longer kept"));
}

TEST_F(LogsTest, FollowedLogsWaitForTheJobToStart) {
  controller_.SetJobs({JobIn(v1::QUEUED, 1)});
  controller_.AddWatch(
      {{Event(JobIn(v1::QUEUED, 1)), Event(JobIn(v1::STARTING, 2))}, std::nullopt});
  controller_.AddLog(0, {{Chunk(0, "x\n")}, grpc::Status::OK});
  controller_.AddLog(1, {{}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", kId, "-f"});
  EXPECT_EQ(ran.out, "[rank 0] x\n") << ran.err;
}

TEST_F(LogsTest, LogsThatCannotBeAreToldWithTheRightCode) {
  controller_.SetJobs({JobIn(v1::QUEUED, 1)});
  EXPECT_EQ(Paceline({"job", "logs", kId}).exit, kCliRefused);
  controller_.SetJobs({JobIn(v1::RUNNING, 1)});
  EXPECT_EQ(Paceline({"job", "logs", kId, "--rank", "2"}).exit, kCliNotFound);
  EXPECT_EQ(Paceline({"job", "logs", kId, "--rank", "x"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "logs", kId, "-o", "json"}).exit, kCliUsage);
}

}  // namespace
}  // namespace paceline
