// A slow rank, from the steps that workers report to a remedy that a person applies.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr int kNodes = 4;  // With two ranks each; one more node is free.
constexpr int kSlowRank = 5;

class AdviceTest : public ServerTest {
 protected:
  void StartJob() {
    for (int n = 0; n <= kNodes; ++n) {
      const std::string number = std::to_string(n);
      workers_.push_back(Join(Hello("w" + number, 2, "uid" + number)));
    }
    v1::JobSpec spec = Spec(2 * kNodes);
    spec.set_steps(10000);
    spec.mutable_recovery()->set_max_failures(3);
    ASSERT_TRUE(Submit(spec, "submit", &job_).ok());
    for (int n = 0; n < kNodes; ++n) {
      const v1::NodePlan plan = workers_[n]->ReadPlan(2);
      std::vector<v1::TrainerReport> reports;
      for (const v1::TrainerPlan& trainer : plan.trainers()) {
        reports.push_back(Trainer(trainer, v1::TRAINER_RUNNING));
        reports.back().mutable_membership()->set_generation(1);
        ids_.push_back(trainer.id());
      }
      workers_[n]->Report(reports);
    }
    job_ = WaitFor(job_.id(), v1::RUNNING);
  }

  // All ranks do steps of one second, the slow one of `factor` seconds; waits until the controller
  // has seen them.
  void Train(int64_t steps, double factor) {
    constexpr int64_t kBatch = 50;
    for (const int64_t end = step_ + steps; step_ < end; step_ += kBatch) {
      for (size_t rank = 0; rank < ids_.size(); ++rank) {
        v1::WorkerMessage message;
        v1::StepBatch& batch = *message.mutable_steps()->add_batches();
        *batch.mutable_id() = ids_[rank];
        for (int64_t step = step_; step < step_ + kBatch; ++step) {
          const auto noise = static_cast<double>((step * 7 + static_cast<int64_t>(rank) * 5) % 11);
          const double own = (0.95 + 0.001 * noise) * (rank == kSlowRank ? factor : 1);
          v1::StepRecord& record = *batch.add_records();
          record.set_step(step);
          record.set_forward_ns(static_cast<int64_t>(0.3e9 * own));
          record.set_backward_ns(static_cast<int64_t>(0.7e9 * own));
          record.set_total_ns(static_cast<int64_t>(1e9 * factor));
        }
        workers_[rank / 2]->Write(message);
      }
      for (int i = 0; i < 2000 && Advise().steps_seen() < step_ + kBatch; ++i) {
        absl::SleepFor(absl::Milliseconds(2));
      }
      ASSERT_EQ(Advise().steps_seen(), step_ + kBatch);
    }
  }

  v1::JobAdvice Advise() {
    grpc::ClientContext context;
    v1::AdviseRequest request;
    request.set_job("digits");
    v1::JobAdvice advice;
    const grpc::Status status = jobs_->Advise(&context, request, &advice);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return advice;
  }
  grpc::Status Apply(int64_t advice, const std::string& by, const std::string& request_id,
                     v1::RemedyDecision* decision) {
    grpc::ClientContext context;
    v1::ApplyAdviceRequest request;
    request.set_job("digits");
    request.set_advice(advice);
    request.set_by(by);
    request.set_request_id(request_id);
    return jobs_->ApplyAdvice(&context, request, decision);
  }
  v1::ListDecisionsResponse Decisions() {
    grpc::ClientContext context;
    v1::ListDecisionsRequest request;
    request.set_job("digits");
    v1::ListDecisionsResponse response;
    const grpc::Status status = jobs_->ListDecisions(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  v1::Job job_;
  std::vector<std::unique_ptr<PlayedWorker>> workers_;
  std::vector<v1::TrainerId> ids_;  // By rank.
  int64_t step_ = 0;
};

TEST_F(AdviceTest, SlowRankIsAdvisedOnAndTheAdviceIsApplied) {
  StartJob();
  Train(100, 1);
  EXPECT_TRUE(Advise().stragglers().empty());
  EXPECT_TRUE(Decisions().decisions().empty());
  Train(200, 1.5);
  const v1::JobAdvice advice = Advise();
  EXPECT_EQ(advice.job_id(), job_.id());
  EXPECT_EQ(advice.mode(), v1::STRAGGLER_MODE_ADVISE);
  ASSERT_EQ(advice.stragglers_size(), 1) << advice.DebugString();
  EXPECT_EQ(advice.stragglers(0).kind(), v1::VERDICT_PERSISTENT);
  EXPECT_EQ(advice.stragglers(0).rank(), kSlowRank);
  EXPECT_EQ(advice.stragglers(0).node(), "w2");
  ASSERT_EQ(advice.decisions_size(), 1) << advice.DebugString();
  EXPECT_EQ(advice.decisions(0).id(), 1);
  EXPECT_EQ(advice.decisions(0).state(), v1::DECISION_ADVISED);
  EXPECT_EQ(advice.decisions(0).summary(), "drain of w2");

  v1::RemedyDecision decision;
  ASSERT_TRUE(Apply(1, "ann", "apply", &decision).ok());
  EXPECT_EQ(decision.state(), v1::DECISION_ORDERED);
  EXPECT_EQ(decision.by(), "ann");
  EXPECT_FALSE(decision.automatic());
  EXPECT_EQ(workers_[kNodes]->ReadPlan(2).trainers_size(), 2) << "its ranks move there";
  v1::RemedyDecision again;
  ASSERT_TRUE(Apply(1, "ann", "apply", &again).ok()) << "a repeat";
  EXPECT_EQ(again.id(), 1);
  EXPECT_EQ(Reason(Apply(1, "bob", "apply", &again)), "REQUEST_ID_REUSED");
  EXPECT_EQ(Reason(Apply(1, "ann", "second", &again)), "ADVICE_CLOSED");

  Restart();
  const v1::ListDecisionsResponse decisions = Decisions();
  ASSERT_EQ(decisions.decisions_size(), 1);
  EXPECT_EQ(decisions.decisions(0).state(), v1::DECISION_ORDERED);
  EXPECT_EQ(decisions.decisions(0).by(), "ann");
}

TEST_F(AdviceTest, WhatCannotBeAppliedIsRefused) {
  v1::RemedyDecision decision;
  EXPECT_EQ(Reason(Apply(1, "ann", "a", &decision)), "JOB_NOT_FOUND");
  StartJob();
  const grpc::Status unknown = Apply(7, "ann", "b", &decision);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(unknown), "ADVICE_NOT_FOUND");
  for (const char* by : {"", "automation", "brake"}) {
    const grpc::Status nobody = Apply(1, by, "c", &decision);
    EXPECT_EQ(Reason(nobody), "REQUEST_INVALID") << by;
    EXPECT_THAT(nobody.error_message(), HasSubstr("by: ")) << by;
  }
  EXPECT_EQ(Reason(Apply(1, "ann", "", &decision)), "REQUEST_ID_INVALID");
}

TEST_F(AdviceTest, UnknownJobIsNotFound) {
  grpc::ClientContext context;
  v1::AdviseRequest request;
  request.set_job("other");
  v1::JobAdvice advice;
  EXPECT_EQ(Reason(jobs_->Advise(&context, request, &advice)), "JOB_NOT_FOUND");
}

}  // namespace
}  // namespace paceline
