// Checkpoints over real sockets: saves, orders, restarts and removal, with a worker played by the
// test.
#include <gmock/gmock.h>

#include "controller/testing/checkpoints_fixture.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
  ReadMetrics("paceline_checkpoints_committed_total 1");
  const std::string metrics = ReadMetrics("paceline_job_last_checkpoint_step" + label + " 20");
  EXPECT_THAT(metrics, HasSubstr("paceline_job_checkpoints" + label + " 1"));
  EXPECT_THAT(metrics, HasSubstr("paceline_job_last_checkpoint_timestamp_seconds" + label));
  EXPECT_THAT(metrics, HasSubstr("paceline_checkpoint_commit_seconds_count 1"));
  EXPECT_THAT(metrics, HasSubstr("paceline_checkpoint_blocking_seconds_count 1"));
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

TEST_F(CheckpointsTest, OrderElsewhereNamesAWholePath) {
  Start(SavingSpec());
  v1::Job job;
  const grpc::Status status = Order("r1", &job, /*now=*/false, "spare");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("\"spare\", which is not absolute"));
  ASSERT_TRUE(Order("r2", &job, /*now=*/false, "/spare").ok());
  EXPECT_EQ(job.checkpoints().order().directory(), "/spare");
  const v1::NodePlan plan = worker_->ReadUntil(
      [](const v1::NodePlan& p) { return p.trainers(1).checkpoints().has_save(); });
  EXPECT_EQ(plan.trainers(1).checkpoints().directories(0).order(), 1);
  EXPECT_EQ(plan.trainers(1).checkpoints().directories(0).directory(), "/spare");
  Complete(20, /*order=*/1);
  v1::Checkpoint checkpoint;
  ASSERT_TRUE(GetCheckpoint(job_.id() + "/20", &checkpoint).ok());
  EXPECT_EQ(checkpoint.directory(), "/spare/" + job_.id() + "/step-000000000020.g1");
  EXPECT_EQ(checkpoint.saved_to(), "/spare");
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
  ReadMetrics("paceline_job_restarts_total{failure=\"signal\",queue=\"default\"} 1");

  worker_.reset();
  Restart();
  worker_ = std::make_unique<PlayedWorker>(channel_, Hello("w0"));
  TellResult(ReadTask(), {20, 40});
  Run(2);
  for (const v1::TrainerPlan& trainer : plan_.trainers()) {
    EXPECT_EQ(trainer.id().generation(), 2);
    EXPECT_EQ(trainer.restore_from(), Directory("step-000000000040.g1"));
    // Who restores knows who else does on its node.
    EXPECT_EQ(trainer.local().index(), trainer.id().rank());
    EXPECT_EQ(trainer.local().slots_size(), 2);
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
  v1::ListCheckpointsResponse response;
  EXPECT_EQ(Reason(ListPage(request, &response)), "PAGE_TOKEN_INVALID");
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
  v1::SaveStatus failed = Save(20, v1::SAVE_FAILED, 1);
  failed.set_failure(v1::SAVE_NAN);  // A lasting failure: the save is not tried again.
  Tell(v1::TRAINER_RUNNING, {failed});
  Tell(v1::TRAINER_EXITED);
  EXPECT_THAT(WaitFor(job_.id(), v1::CANCELLED).reason(),
              HasSubstr("was asked to end (SIGTERM); not saved: save after step 20"));
}

}  // namespace
}  // namespace paceline
