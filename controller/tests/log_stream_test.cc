// Logs of ranks that are replaced or started again, over real sockets; the worker is played by the
// test.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

class LogStreamTest : public ServerTest {
 protected:
  ~LogStreamTest() override { context_.TryCancel(); }

  // Starts a job of two ranks on w0, which has room for one more.
  void StartJob() {
    worker_ = Join(Hello("w0", 3));
    v1::JobSpec spec = Spec(2);
    spec.set_steps(1000);
    spec.mutable_recovery()->set_max_failures(3);
    ASSERT_TRUE(Submit(spec, "submit", &job_).ok());
    plan_ = worker_->ReadPlan(2);
    worker_->Report(AllTrain(10));
    WaitFor(job_.id(), v1::RUNNING);
  }
  // Rank 1 dies, and another trainer is to take its place, but the worker has not reported it yet.
  void LoseRank1() {
    std::vector<v1::TrainerReport> reports = AllTrain(11);
    reports.at(1).set_state(v1::TRAINER_EXITED);
    reports.at(1).mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
    worker_->Report(reports);
    while (plan_.trainers(0).membership().generation() != 2) ASSERT_TRUE(ReadOne());
    ASSERT_EQ(plan_.trainers(1).id().generation(), 2);
  }

  static v1::TrainerReport Training(const v1::TrainerPlan& plan, int64_t step) {
    v1::TrainerReport report = Trainer(plan, v1::TRAINER_RUNNING);
    report.set_pid(1000 * plan.id().generation() + plan.id().rank());
    report.mutable_progress()->set_step(step);
    report.mutable_membership()->set_generation(plan.membership().generation());
    report.mutable_membership()->set_step(step);
    return report;
  }
  std::vector<v1::TrainerReport> AllTrain(int64_t step) const {
    std::vector<v1::TrainerReport> reports;
    for (const v1::TrainerPlan& trainer : plan_.trainers()) {
      reports.push_back(Training(trainer, step));
    }
    return reports;
  }

  // Reads the worker's next message. Returns false if its session has ended.
  bool ReadOne() {
    const auto message = worker_->Read();
    if (!message.has_value()) return false;
    if (message->has_plan()) plan_ = message->plan();
    if (message->has_log_request()) asked_.push_back(message->log_request());
    return true;
  }
  // Next log request that the worker gets.
  v1::LogRequest Asked() {
    while (asked_.empty() && ReadOne()) {
    }
    if (asked_.empty()) {
      ADD_FAILURE() << "no log request";
      return {};
    }
    const v1::LogRequest asked = asked_.front();
    asked_.erase(asked_.begin());
    return asked;
  }
  void Answer(const v1::LogRequest& asked, const std::string& data, bool end,
              const std::string& error = "") {
    v1::WorkerMessage message;
    message.mutable_log()->set_id(asked.id());
    message.mutable_log()->set_offset(asked.offset());
    message.mutable_log()->set_data(data);
    message.mutable_log()->set_end(end);
    message.mutable_log()->set_error(error);
    worker_->Write(message);
  }

  v1::StreamLogsRequest FollowRank1() const {
    v1::StreamLogsRequest request;
    request.set_job(job_.id());
    request.set_rank(1);
    request.set_follow(true);
    request.set_follow_rank(true);
    return request;
  }
  void Open(const v1::StreamLogsRequest& request) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = jobs_->StreamLogs(&context_, request);
  }
  // "GENERATION/NODE/OFFSET: DATA" for the next chunk; "end: CODE REASON" for the stream's end.
  std::string ReadChunk() {
    v1::LogChunk chunk;
    if (stream_->Read(&chunk)) {
      return std::to_string(chunk.trainer().generation()) + "/" + chunk.node() + "/" +
             std::to_string(chunk.offset()) + ": " + chunk.data();
    }
    const grpc::Status status = stream_->Finish();
    return "end: " + std::to_string(status.error_code()) + " " + Reason(status);
  }

  std::unique_ptr<PlayedWorker> worker_;
  v1::Job job_;
  v1::NodePlan plan_;  // The newest one.
  std::vector<v1::LogRequest> asked_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::LogChunk>> stream_;
};

TEST_F(LogStreamTest, GoesOnWithTheTrainerThatTakesTheRankUntilTheJobEnds) {
  StartJob();
  Open(FollowRank1());
  v1::LogRequest asked = Asked();
  EXPECT_EQ(asked.trainer().generation(), 1);
  EXPECT_EQ(asked.trainer().rank(), 1);
  EXPECT_TRUE(asked.follow());
  Answer(asked, "old\n", /*end=*/false);
  EXPECT_EQ(ReadChunk(), "1/w0/0: old\n");
  const v1::LogRequest waiting = Asked();
  EXPECT_TRUE(waiting.follow());
  EXPECT_EQ(waiting.offset(), 4);

  LoseRank1();
  asked = Asked();
  EXPECT_EQ(asked.trainer().generation(), 1);
  EXPECT_FALSE(asked.follow()) << "it writes nothing more";
  EXPECT_EQ(asked.offset(), 4);
  Answer(asked, "last\n", /*end=*/true);
  EXPECT_EQ(ReadChunk(), "1/w0/4: last\n");

  worker_->Report(AllTrain(12));
  asked = Asked();
  EXPECT_EQ(asked.trainer().generation(), 2);
  EXPECT_EQ(asked.offset(), 0);
  EXPECT_TRUE(asked.follow());
  Answer(asked, "new\n", /*end=*/false);
  EXPECT_EQ(ReadChunk(), "2/w0/0: new\n");

  asked = Asked();
  EXPECT_EQ(asked.offset(), 4);
  WaitFor(job_.id(), v1::RUNNING);
  Answer(asked, "done\n", /*end=*/true);
  EXPECT_EQ(ReadChunk(), "2/w0/4: done\n");
  std::vector<v1::TrainerReport> reports = AllTrain(1000);
  for (v1::TrainerReport& report : reports) {
    report.set_state(v1::TRAINER_EXITED);
    report.mutable_exit();
  }
  worker_->Report(reports);
  WaitFor(job_.id(), v1::SUCCEEDED);
  EXPECT_EQ(ReadChunk(), "end: 0 ");
}

TEST_F(LogStreamTest, ReaderThatComesBackGetsTheRestOfTheOldLogAndThenTheNewOne) {
  StartJob();
  LoseRank1();
  worker_->Report(AllTrain(12));
  WaitFor(job_.id(), v1::RUNNING);
  v1::StreamLogsRequest request = FollowRank1();
  request.set_offset(4);
  request.mutable_trainer()->set_generation(1);
  request.mutable_trainer()->set_rank(1);
  request.set_node("w0");
  Open(request);
  v1::LogRequest asked = Asked();
  EXPECT_EQ(asked.trainer().job_id(), job_.id());
  EXPECT_EQ(asked.trainer().generation(), 1);
  EXPECT_EQ(asked.offset(), 4);
  EXPECT_FALSE(asked.follow());
  Answer(asked, "last\n", /*end=*/true);
  EXPECT_EQ(ReadChunk(), "1/w0/4: last\n");
  asked = Asked();
  EXPECT_EQ(asked.trainer().generation(), 2);
  EXPECT_EQ(asked.offset(), 0);
  EXPECT_TRUE(asked.follow());
}

TEST_F(LogStreamTest, ReaderThatComesBackBeginsTheNewLogWhenTheOldOneCannotBeHad) {
  StartJob();
  LoseRank1();
  worker_->Report(AllTrain(12));
  WaitFor(job_.id(), v1::RUNNING);
  for (const char* node : {"gone", "w0"}) {
    v1::StreamLogsRequest request = FollowRank1();
    request.set_follow(false);
    request.set_follow_rank(false);
    request.set_offset(4);
    request.mutable_trainer()->set_generation(1);
    request.mutable_trainer()->set_rank(1);
    request.set_node(node);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    auto stream = jobs_->StreamLogs(&context, request);
    v1::LogRequest asked = Asked();
    if (asked.trainer().generation() == 1) {
      EXPECT_STREQ(node, "w0");
      Answer(asked, "", /*end=*/true, "the node does not keep this log, or not any more");
      asked = Asked();
    }
    EXPECT_EQ(asked.trainer().generation(), 2) << node;
    EXPECT_EQ(asked.offset(), 0) << node;
    EXPECT_FALSE(asked.follow()) << node;
    Answer(asked, "new\n", /*end=*/true);
    v1::LogChunk chunk;
    EXPECT_TRUE(stream->Read(&chunk)) << node;
    EXPECT_FALSE(stream->Read(&chunk)) << node;
    EXPECT_TRUE(stream->Finish().ok()) << node;
  }
}

// The node's session stays open, so nothing says that it will not answer.
TEST_F(LogStreamTest, ReaderOfANodeThatIsNotHeardOfIsToldSo) {
  StartJob();
  Open(FollowRank1());
  Asked();
  EXPECT_EQ(ReadChunk(), "end: 14 NODE_UNREACHABLE") << "it waited for the node's answer";
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::LogChunk chunk;
  auto stream = jobs_->StreamLogs(&context, FollowRank1());
  EXPECT_FALSE(stream->Read(&chunk));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_message(), "node w0 is not heard of");
}

TEST_F(LogStreamTest, OlderReaderEndsWithItsTrainer) {
  StartJob();
  v1::StreamLogsRequest request = FollowRank1();
  request.set_follow_rank(false);
  Open(request);
  const v1::LogRequest asked = Asked();
  LoseRank1();
  Answer(asked, "last\n", /*end=*/true);
  EXPECT_EQ(ReadChunk(), "1/w0/0: last\n");
  EXPECT_EQ(ReadChunk(), "end: 0 ");
}

TEST_F(LogStreamTest, WaitsInTheQueueForTheNewStart) {
  worker_ = Join(Hello("w0", 2));
  v1::JobSpec spec = Spec(2);
  spec.set_max_restarts(1);
  ASSERT_TRUE(Submit(spec, "submit", &job_).ok());
  plan_ = worker_->ReadPlan(2);
  worker_->Report(AllTrain(1));
  WaitFor(job_.id(), v1::RUNNING);
  Open(FollowRank1());
  v1::LogRequest asked = Asked();
  std::vector<v1::TrainerReport> reports = AllTrain(2);
  for (v1::TrainerReport& report : reports) {
    report.set_state(v1::TRAINER_EXITED);
    report.mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
  }
  worker_->Report(reports);
  while (plan_.trainers_size() == 0 || plan_.trainers(0).id().generation() != 2) {
    ASSERT_TRUE(ReadOne());
  }
  asked = Asked();
  EXPECT_EQ(asked.trainer().generation(), 1);
  EXPECT_FALSE(asked.follow());
  Answer(asked, "", /*end=*/true);
  worker_->Report(AllTrain(0));
  asked = Asked();
  EXPECT_EQ(asked.trainer().generation(), 2);
  EXPECT_EQ(asked.trainer().rank(), 1);
  EXPECT_TRUE(asked.follow());
  Answer(asked, "again\n", /*end=*/false);
  EXPECT_EQ(ReadChunk(), "2/w0/0: again\n");

  v1::CancelJobRequest cancel;
  cancel.set_job(job_.id());
  cancel.set_request_id("cancel");
  grpc::ClientContext context;
  ASSERT_TRUE(jobs_->Cancel(&context, cancel, &job_).ok());
  asked = Asked();
  reports = AllTrain(1);
  for (v1::TrainerReport& report : reports) {
    report.set_state(v1::TRAINER_EXITED);
    report.mutable_exit();
  }
  worker_->Report(reports);
  Answer(asked, "", /*end=*/true);
  EXPECT_EQ(ReadChunk(), "end: 0 ");
}

}  // namespace
}  // namespace paceline
