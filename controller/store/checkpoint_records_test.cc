// A job that is stored at any moment continues under the next controller as if nothing had
// happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/checkpoint/checkpoint_tasks.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/checkpoint/saving.h"
#include "controller/core/recovery/restart.h"
#include "controller/core/testing/played_job.h"
#include "controller/store/record.pb.h"
#include "controller/store/records.h"
#include "controller/store/testing/memory_store.h"
#include "controller/wire/convert_checkpoint.h"
#include "controller/wire/convert_plan.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

JobRequest SavingRequest() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.set_ranks(2);
  spec.set_steps(1000);
  spec.set_max_restarts(2);
  spec.set_resume_from("/other/step-000000000007.g1");
  spec.mutable_strategy()->mutable_ddp();
  v1::CheckpointPolicy* policy = spec.mutable_checkpoint();
  policy->set_directory("/ckpt");
  policy->set_every_s(60);
  policy->set_keep_latest(5);
  policy->set_keep_every(100);
  policy->set_on_damage(v1::ON_DAMAGE_PREVIOUS);
  return FromProto(JobId("job-1"), spec);
}

// The job as the next controller loads it.
Job Stored(const Job& job) {
  MemoryStore store;
  EXPECT_TRUE(store.Commit({{{JobKey(job.request.id), EncodeJob(job)}}, {}}).ok());
  const auto state = LoadState(store);
  EXPECT_EQ(state->jobs.size(), 1u);
  Cluster cluster{Cluster::Options()};
  cluster.Restore(state->jobs, {}, At(1000));
  const Job& restored = cluster.jobs().at(job.request.id);
  EXPECT_EQ(EncodeJob(restored), EncodeJob(job)) << "stored again, it is the same";
  return restored;
}

TEST(CheckpointRecordsTest, PolicyComesFromTheSpec) {
  const Job job = Stored(NewJob(SavingRequest(), 1, At(0)));
  EXPECT_EQ(job.request.checkpoints.directory, "/ckpt");
  EXPECT_EQ(job.request.checkpoints.every, absl::Seconds(60));
  EXPECT_EQ(job.request.checkpoints.keep_latest, 5);
  EXPECT_EQ(job.request.checkpoints.keep_every, 100);
  EXPECT_TRUE(job.request.checkpoints.previous_on_damage);
  EXPECT_EQ(job.request.max_restarts, 2);
  EXPECT_EQ(job.start.directory, "/other/step-000000000007.g1");
}

TEST(CheckpointRecordsTest, SaveThatIsHalfDurableBecomesComplete) {
  Job job = RunningJob(SavingRequest());
  TellSaves(job, 1, {Reported(20, SaveState::kDurable)}, At(5));
  job = Stored(job);
  TellSaves(job, 0, {Reported(20, SaveState::kDurable)}, At(1001));
  EXPECT_THAT(CommitSteps(job), ElementsAre(20));
  job = Stored(job);
  EXPECT_THAT(CommitSteps(job), ElementsAre(20));
  TellSaves(job, 0, {Reported(20, SaveState::kCommitted)}, At(1003));
  EXPECT_EQ(job.checkpoints.durable, absl::Seconds(3)) << "as far as this controller knows";
  job = Stored(job);
  ASSERT_THAT(job.checkpoints.records, SizeIs(1));
  const Checkpoint& checkpoint = job.checkpoints.records[0];
  EXPECT_EQ(checkpoint.key, (CheckpointKey{20, 1}));
  EXPECT_EQ(checkpoint.bytes, 200);
  EXPECT_EQ(checkpoint.ranks, 2);
  EXPECT_EQ(checkpoint.created, At(1003).wall);
  TellSaves(job, 0, {Reported(20, SaveState::kCommitted)}, At(1004));
  EXPECT_EQ(job.checkpoints.committed, 1) << "told again, counted once";
}

TEST(CheckpointRecordsTest, SaveOfUnknownOutcomeStaysSo) {
  Job job = RunningJob(SavingRequest());
  for (const int rank : {0, 1}) TellSaves(job, rank, {Reported(1, SaveState::kDurable)}, At(5));
  job = Stored(job);
  std::vector<SaveStatus> newer;
  for (int64_t step = 2; step <= 9; ++step) newer.push_back(Reported(step, SaveState::kDurable));
  TellSaves(job, 1, {Reported(1, SaveState::kDurable)}, At(1001));
  TellSaves(job, 0, newer, At(1001));
  job = Stored(job);
  EXPECT_THAT(CommitSteps(job), IsEmpty());
  EXPECT_EQ(job.checkpoints.saves[0].outcome, Save::Outcome::kUnknown);
  EXPECT_THAT(job.checkpoints.remnants, IsEmpty());
}

TEST(CheckpointRecordsTest, FailedSaveIsNotCountedAgainAndItsRemnantsAreStillRemoved) {
  Job job = RunningJob(SavingRequest());
  TellSaves(job, 0, {Reported(20, SaveState::kDurable)}, At(5));
  TellSaves(job, 1, {Reported(20, SaveState::kFailed)}, At(5));
  TellSaves(job, 0, {Reported(30, SaveState::kSkipped)}, At(5));
  job = Stored(job);
  TellSaves(job, 1, {Reported(20, SaveState::kFailed)}, At(1001));
  EXPECT_EQ(job.checkpoints.failed.at(SaveFailure::kNoSpace), 1);
  EXPECT_EQ(job.checkpoints.skipped, 1);
  EXPECT_THAT(job.checkpoints.remnants, ElementsAre(Remnant{{20, 1}, ""}));
  EXPECT_THAT(job.checkpoints.last_error, ::testing::HasSubstr("rank 1 on b: the disk is full"));
}

TEST(CheckpointRecordsTest, SavesElsewhereStayWhereTheyAre) {
  Job job = RunningJob(SavingRequest());
  OrderSave(job, false, "asked", At(5), "/spare");
  SaveAll(job, 20, At(6), /*order=*/1);
  TellSaves(job, 1, {Reported(30, SaveState::kDurable)}, At(7));
  OrderSave(job, false, "asked", At(8), "/other");
  TellSaves(job, 1, {Reported(30, SaveState::kDurable, 2)}, At(9));
  OrderSave(job, false, "asked", At(10), "/third");
  TellSaves(job, 1, {Reported(30, SaveState::kDurable, 3)}, At(11));
  job = Stored(job);
  EXPECT_EQ(DirectoryOf(job, job.checkpoints.records.at(0)), "/spare/job-1/step-000000000020.g1");
  EXPECT_EQ(SummarizeCheckpoints(job).order().directory(), "/third");
  const v1::CheckpointPlan plan = CheckpointPlanFor(job, Rank(1));
  ASSERT_EQ(plan.directories_size(), 3);
  EXPECT_EQ(plan.directories(1).order(), 2);
  EXPECT_EQ(plan.directories(1).directory(), "/other");
  TellSaves(job, 0, {Reported(30, SaveState::kDurable, 3)}, At(1001));
  const v1::CheckpointPlan first = CheckpointPlanFor(job, Rank(0));
  EXPECT_THAT(first.commit_steps(), ElementsAre(30));
  EXPECT_THAT(first.commit_orders(), ElementsAre(3));
  FailRank1(job, FailureKind::kSignal, At(1002));
  job = Stored(job);
  EXPECT_THAT(job.checkpoints.remnants,
              ElementsAre(Remnant{{30, 1}, "/other"}, Remnant{{30, 1}, "/third"}));
}

TEST(CheckpointRecordsTest, OrderAndTheStopBehindItGoOn) {
  Job job = RunningJob(SavingRequest());
  OrderSave(job, /*at_once=*/true, "asked", At(5));
  StopWhenSaved(job, "maintenance", absl::Seconds(7), At(6));
  job = Stored(job);
  ASSERT_TRUE(IsOrderPending(job));
  EXPECT_EQ(job.checkpoints.order->number, 1);
  EXPECT_EQ(job.checkpoints.order->generation, Generation(1));
  EXPECT_TRUE(job.checkpoints.order->now);
  EXPECT_EQ(job.checkpoints.order->reason, "asked");
  EXPECT_EQ(job.checkpoints.stop_after->deadline, At(1000).steady + kStopPatience);
  SaveAll(job, 20, At(1001), /*order=*/1);
  EXPECT_EQ(job.state, JobState::kStopping);
  job = Stored(job);
  EXPECT_EQ(job.checkpoints.order->state, SaveOrder::State::kComplete);
  EXPECT_EQ(job.checkpoints.order->step, 20);
  EXPECT_EQ(job.stop->grace, absl::Seconds(7));
  FailRank1(job, FailureKind::kSignal, At(1002));
  EXPECT_EQ(job.state, JobState::kCancelled);
}

TEST(CheckpointRecordsTest, CancelledWhileItFailsItIsNotRestartedByTheNextControllerEither) {
  Job job = RunningJob(SavingRequest());
  Exit(job, 1, FailureKind::kSignal, "killed by signal 9", At(5));
  CancelJob(job, "enough", absl::Seconds(1), At(5));
  job = Stored(job);
  Exit(job, 0, FailureKind::kNone, "", At(1001));
  EXPECT_EQ(job.state, JobState::kFailed);
}

TEST(CheckpointRecordsTest, JobThatIsToBeRestartedIs) {
  Job job = RunningJob(SavingRequest());
  SaveAll(job, 20, At(4));
  Exit(job, 1, FailureKind::kSignal, "killed by signal 9", At(5));
  job = Stored(job);
  EXPECT_EQ(job.state, JobState::kStopping);
  Exit(job, 0, FailureKind::kNone, "", At(1001));
  EXPECT_EQ(job.state, JobState::kQueued);
  job = Stored(job);
  EXPECT_EQ(job.restarts, 1);
  EXPECT_EQ(job.restart_reason, "restart 1 of 2: rank 1 on b: killed by signal 9");
  EXPECT_EQ(job.checkpoints.settlement->up_to, Generation(1));
  EXPECT_THAT(job.nodes, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_EQ(job.checkpoints.failures, 1);
  EXPECT_GT(job.checkpoints.node_time, absl::ZeroDuration());
  EXPECT_THAT(TasksOf(job), SizeIs(1));
  job.checkpoints.settlement.reset();
  PlaceOnBoth(job, At(1002));
  job = Stored(job);
  EXPECT_EQ(job.restored_from, "/ckpt/job-1/step-000000000020.g1");
  EXPECT_EQ(job.generation, Generation(2));
}

TEST(CheckpointRecordsTest, StatesPinsAndStartPointStay) {
  Job job = RunningJob(SavingRequest());
  for (const int64_t step : {20, 40, 60}) SaveAll(job, step, At(4));
  FindCheckpoint(job, {20, 1})->pinned = true;
  FindCheckpoint(job, {40, 1})->state = CheckpointState::kDamaged;
  FindCheckpoint(job, {40, 1})->reason = "shard is damaged";
  FindCheckpoint(job, {60, 1})->state = CheckpointState::kDeleting;
  FailRank1(job, FailureKind::kInput, At(5));
  ResumeJob(job, job.request, "/ckpt/job-1/step-000000000020.g1");
  job = Stored(job);
  ASSERT_THAT(job.checkpoints.records, SizeIs(3));
  EXPECT_TRUE(job.checkpoints.records[0].pinned);
  EXPECT_FALSE(job.checkpoints.records[1].pinned);
  EXPECT_EQ(job.checkpoints.records[1].state, CheckpointState::kDamaged);
  EXPECT_EQ(job.checkpoints.records[1].reason, "shard is damaged");
  EXPECT_EQ(job.checkpoints.records[2].state, CheckpointState::kDeleting);
  EXPECT_EQ(job.start.directory, "/ckpt/job-1/step-000000000020.g1");
  EXPECT_EQ(job.start.since, Generation(2));
}

TEST(CheckpointRecordsTest, NextSaveByTimeStaysDue) {
  Job job = RunningJob(SavingRequest());  // It has run for 2 s, on the wall clock too.
  job = Stored(job);
  EXPECT_EQ(job.checkpoints.next_save_wall, At(62).wall);
  EXPECT_EQ(NextDeadline(job), At(1000).steady) << "it was due while the controller was away";
  EXPECT_EQ(job.checkpoints.interval, absl::Seconds(60));
}

TEST(CheckpointRecordsTest, RecordOfAVersionWithoutCheckpointsLoads) {
  Job job = RunningJob(SavingRequest());
  v1::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(EncodeJob(job)));
  record.clear_checkpoints();
  record.clear_saving();
  record.clear_nodes();
  record.clear_start_directory();
  record.clear_start_since();
  record.mutable_job()->clear_checkpoints();
  MemoryStore store;
  ASSERT_TRUE(store.Commit({{{JobKey(JobId("job-1")), record.SerializeAsString()}}, {}}).ok());
  const auto state = LoadState(store);
  const Job& old = state->jobs.at(0);
  EXPECT_EQ(old.state, JobState::kRunning);
  EXPECT_THAT(old.checkpoints.records, IsEmpty());
  EXPECT_FALSE(old.checkpoints.order.has_value());
  EXPECT_FALSE(old.checkpoints.settlement.has_value());
  EXPECT_FALSE(old.checkpoints.stop_after.has_value());
  EXPECT_EQ(old.checkpoints.next_save, absl::InfiniteFuture());
  EXPECT_THAT(old.nodes, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_EQ(old.start.directory, "/other/step-000000000007.g1");
  EXPECT_EQ(old.start.since, Generation(1));
}

TEST(CheckpointRecordsTest, RequestRemembersItsCheckpoint) {
  MemoryStore store;
  const RequestLog::Entry entry{9, JobId("job-1"), At(0).wall, {20, 3}};
  ASSERT_TRUE(store.Commit({{{RequestKey("r"), EncodeRequest(entry)}}, {}}).ok());
  EXPECT_EQ(LoadState(store)->requests.at("r").checkpoint, (CheckpointKey{20, 3}));
}

}  // namespace
}  // namespace paceline
