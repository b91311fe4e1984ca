// Checkpoints over real sockets: saves, orders, restarts, resumption and removal, with a worker
// played by the test.
#include <gmock/gmock.h>

#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

TEST_F(CheckpointsTest, SaveBecomesACheckpointAndOutlivesTheController) {
  Start(SavingSpec());
  Tell(v1::TRAINER_RUNNING, {Save(20, v1::SAVE_WRITING), Save(20, v1::SAVE_WRITING)});
  v1::Job job = WaitUntil([](const v1::Job& j) { return j.checkpoints().in_progress_size() > 0; });
  EXPECT_THAT(job.checkpoints().in_progress(), ElementsAre(20));
  Tell(v1::TRAINER_RUNNING, {Save(20, v1::SAVE_DURABLE), Save(20, v1::SAVE_DURABLE)});
  const v1::NodePlan plan = worker_->ReadUntil(
      [](const v1::NodePlan& p) { return p.trainers(0).checkpoints().commit_steps_size() > 0; });
  EXPECT_THAT(plan.trainers(0).checkpoints().commit_steps(), ElementsAre(20));
  EXPECT_THAT(plan.trainers(1).checkpoints().commit_steps(), IsEmpty());
  EXPECT_EQ(plan.trainers(0).restore_from(), "");
  EXPECT_THAT(List(job_.id()), IsEmpty());
  Tell(v1::TRAINER_RUNNING, {Save(20, v1::SAVE_COMMITTED), Save(20, v1::SAVE_DURABLE)});
  job = WaitUntil([](const v1::Job& j) { return j.checkpoints().complete() == 1; });
  EXPECT_EQ(job.checkpoints().newest_step(), 20);
  EXPECT_EQ(job.checkpoints().bytes(), 200);
  EXPECT_EQ(job.checkpoints().committed(), 1);
  EXPECT_EQ(job.checkpoints().blocked_s(), 0.25);
  EXPECT_THAT(job.checkpoints().in_progress(), IsEmpty());

  const std::string label = "{job_id=\"" + job_.id() + "\"}";
  const std::string metrics = ReadMetrics("paceline_job_last_checkpoint_step" + label + " 20");
  EXPECT_THAT(metrics, HasSubstr("paceline_job_checkpoints" + label + " 1"));
  EXPECT_THAT(metrics, HasSubstr("paceline_job_last_checkpoint_timestamp_seconds" + label));
  EXPECT_THAT(metrics, HasSubstr("paceline_checkpoints_committed_total 1"));
  EXPECT_THAT(metrics, HasSubstr("paceline_checkpoint_commit_seconds_count 1"));
  EXPECT_THAT(metrics, HasSubstr("paceline_checkpoint_failures_total{cause=\"no_space\"} 0"));

  worker_.reset();
  Restart();
  v1::Checkpoint checkpoint;
  ASSERT_TRUE(GetCheckpoint(job_.id() + "/20", &checkpoint).ok());
  EXPECT_EQ(checkpoint.directory(), Directory("step-000000000020.g1"));
  EXPECT_EQ(checkpoint.state(), v1::CHECKPOINT_COMPLETE);
  EXPECT_EQ(checkpoint.generation(), 1);
  EXPECT_EQ(checkpoint.ranks(), 2);
  EXPECT_EQ(checkpoint.job_name(), "digits");
  worker_ = Join(Hello("w0"));
  Tell(v1::TRAINER_RUNNING, {Save(20, v1::SAVE_COMMITTED), Save(20, v1::SAVE_DURABLE)});
  Complete(40);
  EXPECT_THAT(List(""), ElementsAre(40, 20)) << "told again, counted once";
  EXPECT_EQ(Get(job_.id()).checkpoints().committed(), 2);
}

TEST_F(CheckpointsTest, FailedSaveIsToldCountedAndRemoved) {
  Start(SavingSpec());
  Tell(v1::TRAINER_RUNNING, {Save(20, v1::SAVE_DURABLE), Save(20, v1::SAVE_FAILED)});
  const v1::CheckpointTask task = ReadTask();
  EXPECT_EQ(task.kind(), v1::CheckpointTask::REMOVE);
  EXPECT_EQ(task.directory(), Directory("step-000000000020.g1"));
  const v1::Job job = Get(job_.id());
  EXPECT_EQ(job.checkpoints().failed(), 1);
  EXPECT_THAT(job.checkpoints().last_error(), HasSubstr("rank 1 on w0: the disk is full"));
  ReadMetrics("paceline_checkpoint_failures_total{cause=\"no_space\"} 1");
  TellResult(task);
  worker_->ReadUntil([](const v1::NodePlan& plan) { return plan.tasks_size() == 0; });
}

TEST_F(CheckpointsTest, OrderReachesTheRanksAndTellsWhatBecameOfIt) {
  Start(SavingSpec());
  v1::Job job;
  ASSERT_TRUE(Order("r1", &job, /*now=*/true).ok());
  EXPECT_EQ(job.checkpoints().order().number(), 1);
  EXPECT_EQ(job.checkpoints().order().state(), v1::SaveOrderStatus::PENDING);
  const v1::NodePlan plan = worker_->ReadUntil(
      [](const v1::NodePlan& p) { return p.trainers(1).checkpoints().has_save(); });
  EXPECT_EQ(plan.trainers(1).checkpoints().save().number(), 1);
  EXPECT_TRUE(plan.trainers(1).checkpoints().save().now());
  ASSERT_TRUE(Order("r2", &job).ok());
  EXPECT_EQ(job.checkpoints().order().number(), 1) << "the pending one";

  worker_.reset();
  Restart();
  worker_ = std::make_unique<PlayedWorker>(channel_, Hello("w0"));
  EXPECT_TRUE(worker_->ReadPlan(2).trainers(0).checkpoints().save().now());
  Complete(20, /*order=*/1);
  job = Get(job_.id());
  EXPECT_EQ(job.checkpoints().order().state(), v1::SaveOrderStatus::COMPLETE);
  EXPECT_EQ(job.checkpoints().order().step(), 20);
  ASSERT_TRUE(Order("r3", &job).ok());
  EXPECT_EQ(job.checkpoints().order().number(), 2);
  ASSERT_TRUE(Order("r1", &job, /*now=*/true).ok()) << "a repeat orders nothing";
  EXPECT_EQ(job.checkpoints().order().number(), 2);
}

TEST_F(CheckpointsTest, JobThatCannotBeSavedSaysWhy) {
  Start(Spec(2));
  v1::Job job;
  EXPECT_EQ(Reason(Order("r1", &job)), "CHECKPOINTS_OFF");
  EXPECT_EQ(Reason(Cancel(/*save=*/true, "r2", &job)), "CHECKPOINTS_OFF");
  EXPECT_FALSE(Get(job_.id()).has_checkpoints());
  v1::JobSpec spec = SavingSpec();
  spec.set_name("waits");
  ASSERT_TRUE(Submit(spec, "waits", &job_).ok());
  const grpc::Status status = Order("r3", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "JOB_NOT_RUNNING");
}

TEST_F(CheckpointsTest, FailedJobIsRestartedFromWhatItsDirectoryHoldsAlsoByTheNextController) {
  Start(SavingSpec(/*max_restarts=*/1));
  Complete(20);
  FailRank1();
  v1::CheckpointTask task = ReadTask();
  EXPECT_EQ(task.kind(), v1::CheckpointTask::SETTLE);
  EXPECT_EQ(task.directory(), "/ckpt/" + job_.id());
  EXPECT_EQ(task.generation(), 1);
  v1::Job job = Get(job_.id());
  EXPECT_EQ(job.state(), v1::QUEUED);
  EXPECT_EQ(job.restarts(), 1);
  EXPECT_THAT(job.reason(), HasSubstr("restart 1 of 1: rank 1 on w0: killed by signal 9"));

  worker_.reset();
  Restart();
  worker_ = std::make_unique<PlayedWorker>(channel_, Hello("w0"));
  TellResult(ReadTask(), {20, 40});
  Run(2);
  for (const v1::TrainerPlan& trainer : plan_.trainers()) {
    EXPECT_EQ(trainer.id().generation(), 2);
    EXPECT_EQ(trainer.restore_from(), Directory("step-000000000040.g1"));
    EXPECT_FALSE(trainer.checkpoints().has_save());
  }
  job = Get(job_.id());
  EXPECT_EQ(job.restored_from(), Directory("step-000000000040.g1"));
  EXPECT_EQ(job.generation(), 2);
  EXPECT_THAT(List(job_.id()), SizeIs(2));
  FailRank1();
  job = WaitFor(job_.id(), v1::FAILED);
  EXPECT_EQ(job.reason(), "rank 1 on w0: killed by signal 9");
}

TEST_F(CheckpointsTest, CheckpointsAreNamedListedPinnedAndRemoved) {
  Start(SavingSpec());
  for (const int64_t step : {20, 40, 60}) Complete(step);
  EXPECT_THAT(List("digits"), ElementsAre(60, 40, 20));
  v1::Checkpoint checkpoint;
  ASSERT_TRUE(GetCheckpoint("digits", &checkpoint).ok());
  EXPECT_EQ(checkpoint.step(), 60);
  ASSERT_TRUE(GetCheckpoint("digits/40.g1", &checkpoint).ok());
  EXPECT_EQ(checkpoint.step(), 40);
  EXPECT_EQ(Reason(GetCheckpoint("digits/40.g2", &checkpoint)), "CHECKPOINT_NOT_FOUND");
  EXPECT_EQ(Reason(GetCheckpoint("digits/41", &checkpoint)), "CHECKPOINT_NOT_FOUND");
  EXPECT_EQ(Reason(GetCheckpoint("absent/40", &checkpoint)), "JOB_NOT_FOUND");
  for (const char* name : {"digits/", "digits/x", "digits/40.g", "digits/40.g0", "digits/4/0"}) {
    EXPECT_EQ(Reason(GetCheckpoint(name, &checkpoint)), "CHECKPOINT_NAME_INVALID") << name;
  }

  ASSERT_TRUE(Pin("digits/20", "p1", true, &checkpoint).ok());
  EXPECT_TRUE(checkpoint.pinned());
  const grpc::Status pinned = Delete("digits/20", "d1", true, &checkpoint);
  EXPECT_EQ(pinned.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(pinned), "CHECKPOINT_PINNED");
  EXPECT_EQ(Reason(Delete("digits", "d2", false, &checkpoint)), "CHECKPOINT_NEWEST");
  EXPECT_EQ(Reason(Delete("digits", "", true, &checkpoint)), "REQUEST_ID_INVALID");
  ASSERT_TRUE(Delete("digits", "d3", true, &checkpoint).ok());
  EXPECT_EQ(checkpoint.step(), 60);
  EXPECT_EQ(checkpoint.state(), v1::CHECKPOINT_DELETING);
  EXPECT_EQ(Reason(Pin("digits/60", "p2", true, &checkpoint)), "CHECKPOINT_NOT_FOUND");
  TellResult(ReadTask());
  worker_->ReadUntil([](const v1::NodePlan& plan) { return plan.tasks_size() == 0; });
  EXPECT_THAT(List("digits"), ElementsAre(40, 20));
  ASSERT_TRUE(Delete("digits", "d3", true, &checkpoint).ok()) << "a repeat";
  EXPECT_EQ(checkpoint.step(), 60) << "not the one that is the newest by now";
  EXPECT_EQ(checkpoint.state(), v1::CHECKPOINT_DELETING);
  EXPECT_THAT(List("digits"), ElementsAre(40, 20));
  v1::ListCheckpointsRequest request;
  request.set_page_token("1.2");
  grpc::ClientContext context;
  v1::ListCheckpointsResponse response;
  EXPECT_EQ(Reason(checkpoints_->List(&context, request, &response)), "PAGE_TOKEN_INVALID");
}

TEST_F(CheckpointsTest, CancelledJobIsSavedFirstWhereAskedTo) {
  Start(SavingSpec(/*max_restarts=*/3));
  v1::Job job;
  ASSERT_TRUE(Cancel(/*save=*/true, "c1", &job).ok());
  EXPECT_EQ(job.state(), v1::RUNNING);
  EXPECT_EQ(job.checkpoints().order().state(), v1::SaveOrderStatus::PENDING);
  Complete(20, /*order=*/1);
  worker_->ReadUntil([](const v1::NodePlan& plan) { return plan.trainers(0).has_stop(); });
  Tell(v1::TRAINER_EXITED);
  job = WaitFor(job_.id(), v1::CANCELLED);
  EXPECT_EQ(job.reason(), "cancelled by request; saved as " + Directory("step-000000000020.g1"));
}

TEST_F(CheckpointsTest, RankThatWasAskedToEndHasItsJobSavedAndStopped) {
  Start(SavingSpec());
  v1::TrainerReport report = Trainer(plan_.trainers(1), v1::TRAINER_RUNNING);
  report.set_pid(report.pid() + 100);
  report.set_asked_to_end(true);
  worker_->Report({report});
  const v1::Job job = WaitUntil([](const v1::Job& j) { return j.checkpoints().has_order(); });
  EXPECT_EQ(job.checkpoints().order().reason(), "rank 1 on w0 was asked to end (SIGTERM)");
  Tell(v1::TRAINER_RUNNING, {Save(20, v1::SAVE_FAILED, 1)});
  Tell(v1::TRAINER_EXITED);
  EXPECT_THAT(WaitFor(job_.id(), v1::CANCELLED).reason(),
              HasSubstr("was asked to end (SIGTERM); not saved: save after step 20"));
}

TEST_F(CheckpointsTest, EndedJobIsResumedWithOtherRanks) {
  Start(SavingSpec());
  Complete(20);
  Complete(40);
  v1::ResumeJobRequest request;
  v1::Job job;
  EXPECT_EQ(Reason(Resume(request, "r0", &job)), "JOB_NOT_ENDED");
  FailRank1();
  WaitFor(job_.id(), v1::FAILED);
  TellResult(ReadTask(), {20, 40});

  request.set_ranks(3);
  EXPECT_EQ(Reason(Resume(request, "r1", &job)), "JOB_CANNOT_FIT");
  request.set_ranks(-1);
  const grpc::Status impossible = Resume(request, "r2", &job);
  EXPECT_EQ(Reason(impossible), "SPEC_INVALID");
  EXPECT_THAT(impossible.error_message(), HasSubstr("ranks: is -1"));
  request.set_ranks(1);
  request.set_from(job_.id() + "/30");
  EXPECT_EQ(Reason(Resume(request, "r3", &job)), "CHECKPOINT_NOT_FOUND");
  request.set_from(job_.id() + "/20");
  request.set_steps(20);
  EXPECT_THAT(Resume(request, "r4", &job).error_message(), HasSubstr("steps: is 20, and 20"));
  request.clear_steps();
  request.add_ladder()->set_period(4);
  EXPECT_THAT(Resume(request, "r5", &job).error_message(), HasSubstr("strategy.hsgd.ladder"));
  request.clear_ladder();
  request.set_batch_per_rank(64);
  ASSERT_TRUE(Resume(request, "r6", &job).ok());
  EXPECT_EQ(job.spec().ranks(), 1);
  EXPECT_EQ(job.spec().batch_per_rank(), 64);
  EXPECT_EQ(job.spec().steps(), 1000);
  EXPECT_EQ(job.plan().epoch(), 2);
  EXPECT_FALSE(job.has_failure());
  EXPECT_FALSE(job.has_end_time());
  Run(1);
  EXPECT_EQ(plan_.trainers(0).restore_from(), Directory("step-000000000020.g1"));
  EXPECT_EQ(plan_.trainers(0).world_size(), 1);
  EXPECT_EQ(plan_.trainers(0).plan().epoch(), 2);
  const v1::JobState state = Get(job_.id()).state();
  ASSERT_TRUE(Resume(request, "r6", &job).ok()) << "a repeat";
  EXPECT_EQ(job.state(), state);
  EXPECT_EQ(job.generation(), 2);
}

TEST_F(CheckpointsTest, JobThatHasSucceededIsResumedForMoreSteps) {
  Start(SavingSpec());
  Complete(40);
  Tell(v1::TRAINER_EXITED);
  WaitFor(job_.id(), v1::SUCCEEDED);
  TellResult(ReadTask(), {40});
  v1::ResumeJobRequest request;
  v1::Job job;
  EXPECT_THAT(Resume(request, "r1", &job).error_message(), HasSubstr("1000 are done"));
  request.set_steps(1500);
  ASSERT_TRUE(Resume(request, "r2", &job).ok());
  EXPECT_EQ(job.spec().steps(), 1500);
}

TEST_F(CheckpointsTest, JobWithoutACheckpointIsNotResumed) {
  Start(SavingSpec());
  FailRank1();
  WaitFor(job_.id(), v1::FAILED);
  v1::Job job;
  EXPECT_EQ(Reason(Resume({}, "r1", &job)), "NO_CHECKPOINT");
}

TEST_F(CheckpointsTest, NewJobStartsFromTheCheckpointThatItsSpecNames) {
  Start(SavingSpec());
  Complete(20);
  Tell(v1::TRAINER_EXITED);
  WaitFor(job_.id(), v1::SUCCEEDED);
  const std::string directory = Directory("step-000000000020.g1");
  v1::JobSpec spec = Spec(1);
  spec.set_name("heir");
  spec.set_resume_from("digits/30");
  v1::Job heir;
  EXPECT_EQ(Reason(Submit(spec, "s1", &heir)), "CHECKPOINT_NOT_FOUND");
  spec.set_resume_from("digits/20");
  ASSERT_TRUE(Submit(spec, "s2", &heir).ok());
  EXPECT_EQ(heir.spec().resume_from(), directory) << "what it means is written in";
  plan_ = worker_->ReadUntil([](const v1::NodePlan& plan) {
    return plan.trainers_size() == 1 && plan.trainers(0).id().generation() == 1 &&
           plan.trainers(0).spec().name() == "heir";
  });
  EXPECT_EQ(plan_.trainers(0).restore_from(), directory);
  v1::Checkpoint checkpoint;
  EXPECT_EQ(Reason(Delete("digits/20", "d1", true, &checkpoint)), "CHECKPOINT_IN_USE");
  spec.set_name("by-path");
  spec.set_resume_from("/elsewhere/step-000000000007.g1/");
  ASSERT_TRUE(Submit(spec, "s3", &heir).ok());
  EXPECT_EQ(heir.spec().resume_from(), "/elsewhere/step-000000000007.g1");
}

}  // namespace
}  // namespace paceline
