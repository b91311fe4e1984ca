#include "controller/testing/checkpoints_fixture.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "proto/checkpoint.grpc.pb.h"

namespace paceline {

v1::JobSpec CheckpointsTest::SavingSpec(int max_restarts) {
  v1::JobSpec spec = Spec(2);
  spec.set_steps(1000);
  spec.mutable_checkpoint()->set_directory("/ckpt");
  spec.set_max_restarts(max_restarts);
  return spec;
}

void CheckpointsTest::Start(const v1::JobSpec& spec) {
  if (worker_ == nullptr) worker_ = Join(Hello("w0"));
  ASSERT_TRUE(Submit(spec, "submit " + spec.name(), &job_).ok());
  Run(spec.ranks());
}

void CheckpointsTest::Run(int ranks) {
  plan_ = worker_->ReadPlan(ranks);
  Tell(v1::TRAINER_RUNNING);
  WaitFor(job_.id(), v1::RUNNING);
}

v1::SaveStatus CheckpointsTest::Save(int64_t step, v1::SaveState state, int64_t order) {
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

void CheckpointsTest::Tell(v1::TrainerState state, const std::vector<v1::SaveStatus>& saves) {
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

void CheckpointsTest::TellResult(const v1::CheckpointTask& task,
                                 const std::vector<int64_t>& found) {
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

void CheckpointsTest::Complete(int64_t step, int64_t order) {
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

void CheckpointsTest::FailRank1() {
  std::vector<v1::TrainerReport> reports;
  for (const v1::TrainerPlan& plan : plan_.trainers()) {
    reports.push_back(Trainer(plan, v1::TRAINER_EXITED));
    reports.back().set_pid(reports.back().pid() + 100 * plan.id().generation());
  }
  reports[1].mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
  reports[1].mutable_exit()->set_message("killed by signal 9");
  worker_->Report(reports);
}

v1::CheckpointTask CheckpointsTest::ReadTask() {
  return worker_->ReadUntil([](const v1::NodePlan& plan) { return plan.tasks_size() > 0; })
      .tasks(0);
}

v1::Job CheckpointsTest::WaitUntil(const std::function<bool(const v1::Job&)>& holds) {
  v1::Job job;
  for (int i = 0; i < 2000; ++i) {
    job = Get(job_.id());
    if (holds(job)) return job;
    absl::SleepFor(absl::Milliseconds(5));
  }
  ADD_FAILURE() << job.ShortDebugString();
  return job;
}

grpc::Status CheckpointsTest::Order(const std::string& request_id, v1::Job* job, bool now,
                                    const std::string& directory) {
  grpc::ClientContext context;
  v1::SaveCheckpointRequest request;
  request.set_job(job_.id());
  request.set_request_id(request_id);
  request.set_now(now);
  request.set_directory(directory);
  return v1::CheckpointService::NewStub(channel_)->Save(&context, request, job);
}

grpc::Status CheckpointsTest::GetCheckpoint(const std::string& name, v1::Checkpoint* checkpoint) {
  grpc::ClientContext context;
  v1::GetCheckpointRequest request;
  request.set_checkpoint(name);
  return v1::CheckpointService::NewStub(channel_)->Get(&context, request, checkpoint);
}

grpc::Status CheckpointsTest::Delete(const std::string& name, const std::string& request_id,
                                     bool force, v1::Checkpoint* checkpoint) {
  grpc::ClientContext context;
  v1::DeleteCheckpointRequest request;
  request.set_checkpoint(name);
  request.set_request_id(request_id);
  request.set_force(force);
  return v1::CheckpointService::NewStub(channel_)->Delete(&context, request, checkpoint);
}

grpc::Status CheckpointsTest::Pin(const std::string& name, const std::string& request_id,
                                  bool pinned, v1::Checkpoint* checkpoint) {
  grpc::ClientContext context;
  v1::PinCheckpointRequest request;
  request.set_checkpoint(name);
  request.set_request_id(request_id);
  request.set_pinned(pinned);
  return v1::CheckpointService::NewStub(channel_)->Pin(&context, request, checkpoint);
}

grpc::Status CheckpointsTest::ListPage(const v1::ListCheckpointsRequest& request,
                                       v1::ListCheckpointsResponse* response) {
  grpc::ClientContext context;
  return v1::CheckpointService::NewStub(channel_)->List(&context, request, response);
}

std::vector<int64_t> CheckpointsTest::List(const std::string& job) {
  std::vector<int64_t> steps;
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  request.set_page_size(2);
  do {
    v1::ListCheckpointsResponse response;
    EXPECT_TRUE(ListPage(request, &response).ok());
    EXPECT_LE(response.checkpoints_size(), 2);
    for (const auto& checkpoint : response.checkpoints()) steps.push_back(checkpoint.step());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return steps;
}

grpc::Status CheckpointsTest::Resume(v1::ResumeJobRequest request, const std::string& request_id,
                                     v1::Job* job) {
  grpc::ClientContext context;
  request.set_job(job_.id());
  request.set_request_id(request_id);
  return jobs_->Resume(&context, request, job);
}

grpc::Status CheckpointsTest::Cancel(bool save, const std::string& request_id, v1::Job* job) {
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job(job_.id());
  request.set_request_id(request_id);
  request.set_save(save);
  return jobs_->Cancel(&context, request, job);
}

std::string CheckpointsTest::Directory(const std::string& name) {
  return "/ckpt/" + job_.id() + "/" + name;
}

}  // namespace paceline
