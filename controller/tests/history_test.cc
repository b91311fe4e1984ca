// The history of a job, as clients get it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "controller/testing/server_fixture.h"
#include "proto/job_history.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HistoryTest : public ServerTest {
 protected:
  using Stream = grpc::ClientReader<v1::JobHistoryEvent>;

  std::vector<v1::JobHistoryEvent> Read(const std::string& job, int64_t after = 0) {
    grpc::ClientContext context;
    v1::GetJobHistoryRequest request;
    request.set_job(job);
    request.set_after_id(after);
    v1::JobHistory history;
    const grpc::Status status = Stub()->Get(&context, request, &history);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return {history.events().begin(), history.events().end()};
  }
  std::unique_ptr<Stream> Watch(grpc::ClientContext& context, const std::string& job,
                                int64_t after = 0) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::WatchJobHistoryRequest request;
    request.set_job(job);
    request.set_after_id(after);
    return Stub()->Watch(&context, request);
  }
  static std::vector<std::string> TextsOf(const std::vector<v1::JobHistoryEvent>& events) {
    std::vector<std::string> texts;
    for (const v1::JobHistoryEvent& event : events) texts.push_back(event.what());
    return texts;
  }
  // Reads the stream to its end.
  static std::vector<v1::JobHistoryEvent> ReadAll(Stream& stream) {
    std::vector<v1::JobHistoryEvent> events;
    v1::JobHistoryEvent event;
    while (stream.Read(&event)) events.push_back(event);
    return events;
  }
  std::unique_ptr<v1::JobHistoryService::Stub> Stub() {
    return v1::JobHistoryService::NewStub(channel_);
  }
};

TEST_F(HistoryTest, AJobsLifeIsToldAsItHappensAndEndsTheStream) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "submit", &job).ok());
  grpc::ClientContext context;
  auto stream = Watch(context, "digits");
  v1::JobHistoryEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.what(), "submitted as digits, 1 rank, queue default");
  EXPECT_EQ(event.id(), 1);
  EXPECT_EQ(event.kind(), v1::EVENT_STATE);
  EXPECT_GT(event.time().seconds(), 0);
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.what(), "generation 1 starts on w0");
  EXPECT_EQ(event.state(), v1::STARTING);
  EXPECT_EQ(event.generation(), 1);

  const v1::NodePlan plan = worker->ReadPlan(1);
  v1::TrainerReport report = Trainer(plan.trainers(0), v1::TRAINER_RUNNING);
  report.mutable_progress()->set_step(3);
  worker->Report({report});
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.what(), "all ranks train");
  EXPECT_EQ(event.step(), 3);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_EXITED)});
  EXPECT_THAT(TextsOf(ReadAll(*stream)), ElementsAre("all ranks finished"));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(HistoryTest, SurvivesTheControllerAndIsNotToldTwice) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "submit", &job).ok());
  worker->ReadPlan(1);
  const auto before = Read(job.id());
  ASSERT_EQ(before.size(), 2U);
  worker.reset();
  Restart();
  const auto after = Read(job.id());
  EXPECT_EQ(TextsOf(after), TextsOf(before));
  EXPECT_THAT(Read(job.id(), after.back().id()), IsEmpty());

  // A reader that has seen the first event continues with the second.
  grpc::ClientContext context;
  auto stream = Watch(context, job.id(), before.front().id());
  v1::JobHistoryEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.what(), before.back().what());
  worker = std::make_unique<PlayedWorker>(channel_, Hello("w0"));
  const v1::NodePlan plan = worker->ReadPlan(1);
  worker->Report({Trainer(plan.trainers(0), v1::TRAINER_RUNNING)});
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.what(), "all ranks train");
  EXPECT_EQ(event.id(), before.back().id() + 1);
}

TEST_F(HistoryTest, AWatchOfAnEndedJobTellsWhatIsKeptAndEnds) {
  v1::Job job;
  auto worker = Join(Hello("w0"));
  ASSERT_TRUE(Submit(Spec(), "submit", &job).ok());
  const v1::NodePlan plan = worker->ReadPlan(1);
  v1::TrainerReport failed = Trainer(plan.trainers(0), v1::TRAINER_EXITED);
  failed.mutable_exit()->set_failure(v1::FAILURE_ERROR);
  failed.mutable_exit()->set_message("no such file");
  worker->Report({failed});
  WaitFor(job.id(), v1::FAILED);
  grpc::ClientContext context;
  auto stream = Watch(context, job.id());
  const auto events = ReadAll(*stream);
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events.back().what(), HasSubstr("rank 0 on w0: no such file"));
  EXPECT_TRUE(events.back().warning());
  EXPECT_EQ(events.back().state(), v1::FAILED);
}

TEST_F(HistoryTest, ReadersThatWaitAreClosedWithTheController) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "submit", &job).ok());
  worker->ReadPlan(1);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 20; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(Watch(*contexts.back(), job.id()));
    v1::JobHistoryEvent first;
    ASSERT_TRUE(streams.back()->Read(&first)) << "else it may come too late to be closed";
  }
  worker.reset();
  server_.reset();
  for (auto& stream : streams) {
    ReadAll(*stream);
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
}

TEST_F(HistoryTest, AJobThatIsNotThereIsNotFound) {
  grpc::ClientContext context;
  auto stream = Watch(context, "nothing");
  EXPECT_THAT(ReadAll(*stream), IsEmpty());
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Reason(status), "JOB_NOT_FOUND");
}

}  // namespace
}  // namespace paceline
