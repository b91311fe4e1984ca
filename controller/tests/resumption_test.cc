// Where jobs start from, over real sockets: ended jobs that are resumed, and new jobs that name a
// checkpoint.
#include <gmock/gmock.h>

#include "controller/testing/checkpoints_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(job.plan().version(), 2);
  EXPECT_FALSE(job.has_failure());
  EXPECT_FALSE(job.has_end_time());
  Run(1);
  EXPECT_EQ(plan_.trainers(0).restore_from(), Directory("step-000000000020.g1"));
  EXPECT_EQ(plan_.trainers(0).world_size(), 1);
  EXPECT_EQ(plan_.trainers(0).plan().version(), 2);
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

TEST_F(CheckpointsTest, JobThatHasSucceededBeginsANewLineFromAnOlderCheckpoint) {
  Start(SavingSpec());
  Complete(20);
  Complete(40);
  Tell(v1::TRAINER_EXITED);
  WaitFor(job_.id(), v1::SUCCEEDED);
  TellResult(ReadTask(), {20, 40});
  v1::ResumeJobRequest request;
  request.set_from(job_.id() + "/20");
  request.set_steps(20);
  v1::Job job;
  EXPECT_THAT(Resume(request, "r1", &job).error_message(), HasSubstr("steps: is 20, and 20"));
  request.clear_steps();
  const grpc::Status resumed = Resume(request, "r2", &job);
  ASSERT_TRUE(resumed.ok()) << resumed.error_message();
  EXPECT_EQ(job.spec().steps(), 1000);
  Run(2);
  EXPECT_EQ(plan_.trainers(0).restore_from(), Directory("step-000000000020.g1"));
}

TEST_F(CheckpointsTest, TheCosineIsStretchedOverMoreStepsOrKept) {
  v1::JobSpec spec = SavingSpec();
  spec.mutable_schedule()->mutable_cosine();
  Start(spec);
  Complete(40);
  Tell(v1::TRAINER_EXITED);
  WaitFor(job_.id(), v1::SUCCEEDED);
  TellResult(ReadTask(), {40});
  v1::ResumeJobRequest request;
  v1::Job job;
  request.set_steps(1500);
  request.set_keep_schedule(true);
  ASSERT_TRUE(Resume(request, "r1", &job).ok());
  EXPECT_EQ(job.spec().steps(), 1500);
  EXPECT_EQ(job.spec().schedule().cosine().steps(), 1000);
}

TEST_F(CheckpointsTest, JobWithoutACheckpointIsNotResumed) {
  Start(SavingSpec());
  FailRank1();
  WaitFor(job_.id(), v1::FAILED);
  v1::Job job;
  EXPECT_EQ(Reason(Resume({}, "r1", &job)), "NO_CHECKPOINT");
}

TEST_F(CheckpointsTest, RanksOfAWorkerThatIsAwaySayWhenTheyWereHeardOfLast) {
  Start(SavingSpec());
  Complete(20);
  EXPECT_FALSE(Get(job_.id()).ranks(0).has_last_heard());
  const auto is_unreachable = [](const v1::Job& job) { return job.ranks(0).has_last_heard(); };
  worker_.reset();
  const v1::Job unreachable = WaitUntil(is_unreachable);
  EXPECT_GE(unreachable.ranks(0).last_heard().seconds(), unreachable.start_time().seconds());
  Restart();
  EXPECT_TRUE(is_unreachable(Get(job_.id())));
  worker_ = Join(Hello("w0"));
  Tell(v1::TRAINER_RUNNING);
  WaitUntil([&](const v1::Job& job) { return !is_unreachable(job); });
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
