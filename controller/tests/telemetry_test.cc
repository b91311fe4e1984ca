// What running jobs measure, over real sockets.
#include <gtest/gtest.h>

#include "controller/testing/server_fixture.h"
#include "proto/telemetry.grpc.pb.h"

namespace paceline {
namespace {

class TelemetryTest : public ServerTest {
 protected:
  // Starts a job of two ranks on one played worker; both train.
  v1::Job StartJob() {
    worker_ = Join(Hello("a"));
    v1::Job job;
    EXPECT_TRUE(Submit(Spec(2), "6f7e7f9e-0000-4000-8000-000000000001", &job).ok());
    const v1::NodePlan plan = worker_->ReadPlan(2);
    std::vector<v1::TrainerReport> reports;
    for (const v1::TrainerPlan& trainer : plan.trainers()) {
      ids_.push_back(trainer.id());
      reports.push_back(Trainer(trainer, v1::TRAINER_RUNNING));
    }
    worker_->Report(reports);
    return WaitFor(job.id(), v1::RUNNING);
  }

  void TellStep(int rank, int64_t step, int64_t milliseconds) {
    v1::WorkerMessage message;
    v1::StepBatch* batch = message.mutable_steps()->add_batches();
    *batch->mutable_id() = ids_[static_cast<size_t>(rank)];
    v1::StepRecord* record = batch->add_records();
    record->set_step(step);
    record->set_forward_ns(milliseconds * 1000000);
    record->set_total_ns(milliseconds * 1000000);
    worker_->Write(message);
  }

  v1::JobSteps GetSteps(const std::string& job) {
    grpc::ClientContext context;
    v1::GetJobStepsRequest request;
    request.set_job(job);
    v1::JobSteps steps;
    const grpc::Status status = Telemetry()->GetSteps(&context, request, &steps);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return steps;
  }

  std::unique_ptr<v1::TelemetryService::Stub> Telemetry() {
    return v1::TelemetryService::NewStub(channel_);
  }

  std::unique_ptr<PlayedWorker> worker_;
  std::vector<v1::TrainerId> ids_;
};

TEST_F(TelemetryTest, StepsOfRunningRanksAreTold) {
  const v1::Job job = StartJob();
  TellStep(0, 0, 100);
  TellStep(1, 0, 300);
  v1::JobSteps steps = GetSteps(job.id());
  for (int i = 0; i < 1000 && (steps.rows_size() < 2 || steps.rows(1).own_s().empty() ||
                               steps.rows(1).own_s(0) == 0);
       ++i) {
    absl::SleepFor(absl::Milliseconds(5));
    steps = GetSteps("digits");
  }
  ASSERT_EQ(steps.rows_size(), 2);
  ASSERT_EQ(steps.steps(), 1);
  EXPECT_NEAR(steps.rows(0).own_s(0), 0.1, 0.001);
  EXPECT_NEAR(steps.rows(1).own_s(0), 0.3, 0.001);
  EXPECT_EQ(steps.job_id(), job.id());

  grpc::ClientContext ranks_context;
  v1::GetJobRanksRequest request;
  request.set_job(job.id());
  request.set_slowest(1);
  v1::JobRanks ranks;
  ASSERT_TRUE(Telemetry()->GetRanks(&ranks_context, request, &ranks).ok());
  ASSERT_EQ(ranks.ranks_size(), 1);
  EXPECT_EQ(ranks.ranks(0).rank(), 1);
  EXPECT_EQ(ranks.ranks(0).node(), "a");

  grpc::ClientContext list_context;
  v1::ListJobTelemetryResponse list;
  ASSERT_TRUE(Telemetry()->ListJobs(&list_context, {}, &list).ok());
  ASSERT_EQ(list.jobs_size(), 1);
  EXPECT_EQ(list.jobs(0).job_id(), job.id());
}

TEST_F(TelemetryTest, CurvesOfTheRunAreTold) {
  const v1::Job job = StartJob();
  v1::JobCurves curves;
  for (int i = 0; i < 3000 && curves.curves().empty(); ++i) {
    std::vector<v1::TrainerReport> reports;
    for (const v1::TrainerId& id : ids_) {
      v1::TrainerPlan plan;
      *plan.mutable_id() = id;
      v1::TrainerReport& report = reports.emplace_back(Trainer(plan, v1::TRAINER_RUNNING));
      report.mutable_progress()->set_step(12 + i % 2);  // The job is looked at when it changes.
      report.mutable_progress()->set_loss(0.5);
    }
    worker_->Report(reports);
    absl::SleepFor(absl::Milliseconds(5));
    grpc::ClientContext context;
    v1::GetJobCurvesRequest request;
    request.set_job(job.id());
    ASSERT_TRUE(Telemetry()->GetCurves(&context, request, &curves).ok());
  }
  ASSERT_GT(curves.curves_size(), 0);
  EXPECT_GE(curves.since_step(), 12);
  EXPECT_EQ(curves.curves(0).name(), "loss");
  EXPECT_EQ(curves.curves(0).points(0).step(), curves.since_step());
  EXPECT_EQ(curves.curves(0).points(0).mean(), 0.5);
}

TEST_F(TelemetryTest, ErrorsNameWhatIsWrong) {
  grpc::ClientContext unknown_context;
  v1::GetJobSeriesRequest unknown;
  unknown.set_job("nobody");
  v1::JobSeries series;
  EXPECT_EQ(Reason(Telemetry()->GetSeries(&unknown_context, unknown, &series)), "JOB_NOT_FOUND");

  grpc::ClientContext negative_context;
  v1::GetJobStepsRequest negative;
  negative.set_rows(-1);
  v1::JobSteps steps;
  const grpc::Status refused = Telemetry()->GetSteps(&negative_context, negative, &steps);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(refused), "TELEMETRY_REQUEST_INVALID");
}

}  // namespace
}  // namespace paceline
