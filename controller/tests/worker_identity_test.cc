// Workers that speak for others, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A job of two ranks, rank 0 on one node and rank 1 on the other.
class WorkerIdentityTest : public ServerTest {
 protected:
  WorkerIdentityTest() {
    workers_[0] = Join(Hello("w0", 1, "uid0"));
    workers_[1] = Join(Hello("w1", 1, "uid1"));
    EXPECT_TRUE(Submit(Spec(2), "r1", &job_).ok());
    for (int n = 0; n < 2; ++n) plans_[n] = workers_[n]->ReadPlan(1).trainers(0);
    for (int n = 0; n < 2; ++n) workers_[n]->Report({Trainer(plans_[n], v1::TRAINER_RUNNING)});
    WaitFor(job_.id(), v1::RUNNING);
  }

  static v1::WorkerMessage Steps(const v1::TrainerPlan& of) {
    v1::WorkerMessage message;
    v1::StepBatch* batch = message.mutable_steps()->add_batches();
    *batch->mutable_id() = of.id();
    v1::StepRecord* record = batch->add_records();
    record->set_total_ns(1000000);
    record->set_samples(77);
    return message;
  }

  // Reason for which the worker's session ends.
  static std::string EndOf(PlayedWorker& worker) {
    while (worker.Read().has_value()) {
    }
    return Reason(worker.Finish());
  }

  v1::Job job_;
  std::unique_ptr<PlayedWorker> workers_[2];
  v1::TrainerPlan plans_[2];  // Plan of the trainer on each node.
};

TEST_F(WorkerIdentityTest, AReportOfAnothersTrainerEndsTheSessionAndNothingElse) {
  v1::TrainerReport dead = Trainer(plans_[0], v1::TRAINER_EXITED);
  dead.mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
  workers_[1]->Report({Trainer(plans_[1], v1::TRAINER_RUNNING), dead});
  EXPECT_EQ(EndOf(*workers_[1]), "NOT_YOUR_TRAINER");
  EXPECT_EQ(Get(job_.id()).state(), v1::RUNNING);
  // The worker comes back when it reports its own trainers again.
  v1::Hello hello = Hello("w1", 1, "uid1");
  *hello.mutable_report()->add_trainers() = Trainer(plans_[1], v1::TRAINER_RUNNING);
  EXPECT_NE(Join(hello), nullptr);
}

TEST_F(WorkerIdentityTest, AHelloWithAnothersTrainerIsRefused) {
  v1::Hello hello = Hello("w2", 1, "uid2");
  *hello.mutable_report()->add_trainers() = Trainer(plans_[0], v1::TRAINER_EXITED);
  PlayedWorker impostor(channel_, hello);
  EXPECT_FALSE(impostor.Read().has_value());
  EXPECT_EQ(Reason(impostor.Finish()), "NOT_YOUR_TRAINER");
  EXPECT_EQ(Get(job_.id()).state(), v1::RUNNING);
}

TEST_F(WorkerIdentityTest, AnothersStepsAreNotCounted) {
  workers_[1]->Write(Steps(plans_[0]));
  EXPECT_EQ(EndOf(*workers_[1]), "NOT_YOUR_TRAINER");
  workers_[0]->Write(Steps(plans_[0]));
  const std::string samples =
      absl::StrCat("paceline_job_samples_total{job_id=\"", job_.id(), "\"} ");
  ReadMetrics(samples + "77\n");
}

TEST_F(WorkerIdentityTest, StepsOfAJobThatTheNodeHasNoPartInAreNotCounted) {
  auto stranger = Join(Hello("w2", 1, "uid2"));
  v1::TrainerPlan unknown = plans_[0];
  unknown.mutable_id()->set_generation(99);
  stranger->Write(Steps(unknown));
  // Answers come in order, so the steps have been read by then.
  stranger->Write(Steps(plans_[0]));
  EXPECT_EQ(EndOf(*stranger), "NOT_YOUR_TRAINER");
  workers_[0]->Write(Steps(plans_[0]));
  const std::string samples =
      absl::StrCat("paceline_job_samples_total{job_id=\"", job_.id(), "\"} ");
  EXPECT_THAT(ReadMetrics(samples + "77\n"), Not(HasSubstr(samples + "154\n")));
}

TEST_F(WorkerIdentityTest, ALogIsTakenFromTheNodeThatWasAsked) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::StreamLogsRequest request;
  request.set_job(job_.id());
  request.set_rank(plans_[0].id().rank());
  auto stream = jobs_->StreamLogs(&context, request);
  int64_t asked = 0;
  while (asked == 0) {
    const auto message = workers_[0]->Read();
    ASSERT_TRUE(message.has_value());
    if (message->has_log_request()) asked = message->log_request().id();
  }
  const auto answer = [&](const char* text) {
    v1::WorkerMessage message;
    message.mutable_log()->set_id(asked);
    message.mutable_log()->set_data(text);
    message.mutable_log()->set_end(true);
    return message;
  };
  // The other worker's message is read before the end of its session, which is waited for.
  workers_[1]->Write(answer("forged"));
  workers_[1]->Write(Steps(plans_[0]));
  EXPECT_EQ(EndOf(*workers_[1]), "NOT_YOUR_TRAINER");
  workers_[0]->Write(answer("true"));
  v1::LogChunk chunk;
  ASSERT_TRUE(stream->Read(&chunk));
  EXPECT_EQ(chunk.data(), "true");
  EXPECT_FALSE(stream->Read(&chunk));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace paceline
