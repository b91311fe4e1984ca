// A controller over real sockets and one worker, played by the test, on which a job of two ranks
// trains and saves.
#ifndef CONTROLLER_TESTING_CHECKPOINTS_FIXTURE_H_
#define CONTROLLER_TESTING_CHECKPOINTS_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/testing/server_fixture.h"

namespace paceline {

class CheckpointsTest : public ServerTest {
 protected:
  v1::JobSpec SavingSpec(int max_restarts = 0) {
    v1::JobSpec spec = Spec(2);
    spec.set_steps(1000);
    spec.mutable_checkpoint()->set_directory("/ckpt");
    spec.set_max_restarts(max_restarts);
    return spec;
  }

  void Start(const v1::JobSpec& spec) {
    if (worker_ == nullptr) worker_ = Join(Hello("w0"));
    ASSERT_TRUE(Submit(spec, "submit " + spec.name(), &job_).ok());
    Run(spec.ranks());
  }
  // Takes up the newest generation's plan and trains.
  void Run(int ranks) {
    plan_ = worker_->ReadPlan(ranks);
    Tell(v1::TRAINER_RUNNING);
    WaitFor(job_.id(), v1::RUNNING);
  }

  static v1::SaveStatus Save(int64_t step, v1::SaveState state, int64_t order = 0) {
    v1::SaveStatus save;
    save.set_step(step);
    save.set_order(order);
    save.set_state(state);
    save.set_bytes(100);
    if (state == v1::SAVE_FAILED) {
      save.set_failure(v1::SAVE_NO_SPACE);
      save.set_error("the disk is full");
    }
    return save;
  }

  // All ranks are in `state`; rank r tells of saves[r], or of none.
  void Tell(v1::TrainerState state, const std::vector<v1::SaveStatus>& saves = {}) {
    std::vector<v1::TrainerReport> reports;
    for (int r = 0; r < plan_.trainers_size(); ++r) {
      v1::TrainerReport report = Trainer(plan_.trainers(r), state);
      report.set_pid(report.pid() + 100 * report.id().generation());
      if (r < static_cast<int>(saves.size())) {
        *report.add_saves() = saves[static_cast<size_t>(r)];
        report.mutable_checkpoints()->set_last_blocked_s(0.25);
      }
      reports.push_back(std::move(report));
    }
    worker_->Report(reports);
  }
  void TellResult(const v1::CheckpointTask& task, const std::vector<int64_t>& found = {}) {
    v1::WorkerMessage message;
    v1::CheckpointTaskResult* result = message.mutable_report()->add_task_results();
    *result->mutable_task() = task;
    for (const int64_t step : found) {
      v1::FoundCheckpoint* checkpoint = result->add_found();
      checkpoint->set_step(step);
      checkpoint->set_generation(1);
      checkpoint->set_bytes(220);
      checkpoint->set_ranks(2);
      checkpoint->mutable_create_time()->set_seconds(1700000000 + step);
    }
    worker_->Write(message);
  }
  // Both ranks save and rank 0 commits when it may.
  void Complete(int64_t step, int64_t order = 0) {
    const v1::SaveStatus durable = Save(step, v1::SAVE_DURABLE, order);
    Tell(v1::TRAINER_RUNNING, {durable, durable});
    worker_->ReadUntil([&](const v1::NodePlan& plan) {
      const auto& steps = plan.trainers(0).checkpoints().commit_steps();
      return std::count(steps.begin(), steps.end(), step) > 0;
    });
    Tell(v1::TRAINER_RUNNING, {Save(step, v1::SAVE_COMMITTED, order), durable});
    WaitUntil([&](const v1::Job& job) {
      return job.checkpoints().complete() > 0 && job.checkpoints().newest_step() == step;
    });
  }
  void FailRank1() {
    std::vector<v1::TrainerReport> reports;
    for (const v1::TrainerPlan& plan : plan_.trainers()) {
      reports.push_back(Trainer(plan, v1::TRAINER_EXITED));
      reports.back().set_pid(reports.back().pid() + 100 * plan.id().generation());
    }
    reports[1].mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
    reports[1].mutable_exit()->set_message("killed by signal 9");
    worker_->Report(reports);
  }
  v1::CheckpointTask ReadTask() {
    return worker_->ReadUntil([](const v1::NodePlan& plan) { return plan.tasks_size() > 0; })
        .tasks(0);
  }

  v1::Job WaitUntil(const std::function<bool(const v1::Job&)>& holds) {
    v1::Job job;
    for (int i = 0; i < 2000; ++i) {
      job = Get(job_.id());
      if (holds(job)) return job;
      absl::SleepFor(absl::Milliseconds(5));
    }
    ADD_FAILURE() << job.ShortDebugString();
    return job;
  }

  grpc::Status Order(const std::string& request_id, v1::Job* job, bool now = false) {
    grpc::ClientContext context;
    v1::SaveCheckpointRequest request;
    request.set_job(job_.id());
    request.set_request_id(request_id);
    request.set_now(now);
    return checkpoints_->Save(&context, request, job);
  }
  grpc::Status GetCheckpoint(const std::string& name, v1::Checkpoint* checkpoint) {
    grpc::ClientContext context;
    v1::GetCheckpointRequest request;
    request.set_checkpoint(name);
    return checkpoints_->Get(&context, request, checkpoint);
  }
  grpc::Status Delete(const std::string& name, const std::string& request_id, bool force,
                      v1::Checkpoint* checkpoint) {
    grpc::ClientContext context;
    v1::DeleteCheckpointRequest request;
    request.set_checkpoint(name);
    request.set_request_id(request_id);
    request.set_force(force);
    return checkpoints_->Delete(&context, request, checkpoint);
  }
  grpc::Status Pin(const std::string& name, const std::string& request_id, bool pinned,
                   v1::Checkpoint* checkpoint) {
    grpc::ClientContext context;
    v1::PinCheckpointRequest request;
    request.set_checkpoint(name);
    request.set_request_id(request_id);
    request.set_pinned(pinned);
    return checkpoints_->Pin(&context, request, checkpoint);
  }
  std::vector<int64_t> List(const std::string& job) {
    std::vector<int64_t> steps;
    v1::ListCheckpointsRequest request;
    request.set_job(job);
    request.set_page_size(2);
    do {
      grpc::ClientContext context;
      v1::ListCheckpointsResponse response;
      EXPECT_TRUE(checkpoints_->List(&context, request, &response).ok());
      EXPECT_LE(response.checkpoints_size(), 2);
      for (const auto& checkpoint : response.checkpoints()) steps.push_back(checkpoint.step());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return steps;
  }
  grpc::Status Resume(v1::ResumeJobRequest request, const std::string& request_id, v1::Job* job) {
    grpc::ClientContext context;
    request.set_job(job_.id());
    request.set_request_id(request_id);
    return jobs_->Resume(&context, request, job);
  }
  grpc::Status Cancel(bool save, const std::string& request_id, v1::Job* job) {
    grpc::ClientContext context;
    v1::CancelJobRequest request;
    request.set_job(job_.id());
    request.set_request_id(request_id);
    request.set_save(save);
    return jobs_->Cancel(&context, request, job);
  }
  std::string Directory(const std::string& name) { return "/ckpt/" + job_.id() + "/" + name; }

  v1::Job job_;
  v1::NodePlan plan_;
  std::unique_ptr<PlayedWorker> worker_;
};

}  // namespace paceline

#endif  // CONTROLLER_TESTING_CHECKPOINTS_FIXTURE_H_
