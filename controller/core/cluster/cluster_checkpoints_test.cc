// Checkpoints in the life of a cluster: tasks, restarts, retention and removal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClusterCheckpointsTest : public ::testing::Test {
 protected:
  ClusterCheckpointsTest() {
    for (const char* node : {"a", "b"}) cluster_.Step(NodeConnected{Facts(node), {}}, At(0));
  }

  const Job& job(const char* id = "job-1") { return cluster_.jobs().at(JobId(id)); }

  void Submit(JobRequest request) { cluster_.Step(JobSubmitted{std::move(request)}, At(1)); }

  Actions Tell(int rank, TrainerState state, std::vector<SaveStatus> saves = {},
               FailureKind failure = FailureKind::kNone) {
    TrainerReport report = PlayedReport(job(), rank, state);
    report.saves = std::move(saves);
    if (state == TrainerState::kExited) {
      report.exit = TrainerExit();
      report.exit->failure = failure;
      report.exit->message = "killed by signal 9";
    }
    return cluster_.Step(NodeReported{NodeName(rank == 0 ? "a" : "b"), {report}}, At(++now_));
  }
  void Train() {
    for (int rank = 0; rank < 2; ++rank) Tell(rank, TrainerState::kRunning);
    ASSERT_EQ(job().state, JobState::kRunning);
  }
  void Save(int64_t step, int64_t order = 0) {
    for (int rank = 0; rank < 2; ++rank) {
      Tell(rank, TrainerState::kRunning, {Reported(step, SaveState::kDurable, order)});
    }
    Tell(0, TrainerState::kRunning, {Reported(step, SaveState::kCommitted, order)});
  }
  void Fail() {
    Tell(1, TrainerState::kExited, {}, FailureKind::kSignal);
    Tell(0, TrainerState::kExited);
  }
  Actions Finish(const char* node, const CheckpointTask& task,
                 std::vector<FoundCheckpoint> found = {}) {
    return cluster_.Step(NodeReported{NodeName(node), {}, {{task, "", std::move(found)}}},
                         At(++now_));
  }
  std::vector<int64_t> Steps(CheckpointState state, const char* id = "job-1") {
    std::vector<int64_t> steps;
    for (const Checkpoint& checkpoint : job(id).checkpoints.records) {
      if (checkpoint.state == state) steps.push_back(checkpoint.key.step);
    }
    return steps;
  }
  std::string RemovalRefused(int64_t step, bool force, const char* id = "job-1") {
    const auto refusal =
        cluster_.RefuseRemoval(job(id), *FindCheckpoint(job(id), {step, 1}), force);
    return refusal.has_value() ? refusal->reason : "";
  }

  Cluster cluster_{Cluster::Options()};
  double now_ = 10;
};

TEST_F(ClusterCheckpointsTest, FailedJobIsPlacedAgainOnlyWhenItsDirectoryWasLookedThrough) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  Submit(request);
  Train();
  Save(20);
  Tell(1, TrainerState::kExited, {}, FailureKind::kSignal);
  const Actions actions = Tell(0, TrainerState::kExited);
  EXPECT_EQ(job().state, JobState::kQueued);
  EXPECT_THAT(job().reason, HasSubstr("waits for node a to scan /ckpt/job-1 for checkpoints"));
  EXPECT_THAT(job().reason, HasSubstr("restart 1 of 1: rank 1 on b"));
  EXPECT_THAT(actions.store_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_THAT(cluster_.PlanFor(NodeName("b")), IsEmpty()) << "the old trainers are forgotten";
  const std::vector<CheckpointTask> tasks = cluster_.TasksFor(NodeName("a"));
  ASSERT_THAT(tasks, SizeIs(1));
  EXPECT_THAT(cluster_.TasksFor(NodeName("b")), IsEmpty());

  FoundCheckpoint found;
  found.key = {20, 1};
  Finish("a", tasks[0], {found});
  EXPECT_EQ(job().state, JobState::kStarting);
  EXPECT_EQ(job().generation, Generation(2));
  EXPECT_EQ(job().restored_from, "/ckpt/job-1/step-000000000020.g1");
  EXPECT_THAT(cluster_.TasksFor(NodeName("a")), IsEmpty());
  ASSERT_THAT(cluster_.PlanFor(NodeName("b")), SizeIs(1));
  EXPECT_EQ(cluster_.PlanFor(NodeName("b"))[0].id.generation, Generation(2));
}

TEST_F(ClusterCheckpointsTest, TasksMoveToAnotherNodeWhenTheirsDoesNotAnswer) {
  Submit(PlayedRequest());
  Train();
  Fail();
  ASSERT_EQ(job().state, JobState::kFailed);
  ASSERT_THAT(cluster_.TasksFor(NodeName("a")), SizeIs(1));
  const Actions actions = cluster_.Step(NodeDisconnected{NodeName("a")}, At(++now_));
  EXPECT_THAT(cluster_.TasksFor(NodeName("a")), IsEmpty());
  EXPECT_THAT(cluster_.TasksFor(NodeName("b")), SizeIs(1));
  EXPECT_THAT(actions.send_plans, Contains(NodeName("b")));
}

TEST_F(ClusterCheckpointsTest, TasksOutliveTheController) {
  Submit(PlayedRequest());
  Train();
  Fail();
  Cluster again{Cluster::Options()};
  again.Restore({job()}, {cluster_.nodes().at(NodeName("a"))}, At(100));
  EXPECT_THAT(again.TasksFor(NodeName("a")), IsEmpty()) << "nobody answers yet";
  const Actions actions = again.Step(NodeConnected{Facts("a"), {}}, At(101));
  EXPECT_THAT(again.TasksFor(NodeName("a")), SizeIs(1));
  EXPECT_THAT(actions.send_plans, Contains(NodeName("a")));
}

TEST_F(ClusterCheckpointsTest, JobBehindOneThatCannotBeSettledIsStarted) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  Submit(request);
  Train();
  Fail();
  JobRequest second = PlayedRequest();
  second.id = JobId("job-2");
  Submit(second);
  EXPECT_EQ(job("job-2").state, JobState::kQueued) << "it goes on in a moment";
  const CheckpointTask task = cluster_.TasksFor(NodeName("a"))[0];
  cluster_.Step(NodeReported{NodeName("a"), {}, {{task, "read-only", {}}}}, At(20));
  EXPECT_EQ(job().state, JobState::kQueued);
  EXPECT_THAT(job().reason, HasSubstr("node a: read-only"));
  EXPECT_EQ(job("job-2").state, JobState::kStarting);
}

TEST_F(ClusterCheckpointsTest, FileSystemThatHangsHoldsNobodyUpAndAnotherNodeIsAsked) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  Submit(request);
  Train();
  Fail();
  const Moment failed = At(now_);
  JobRequest second = PlayedRequest();
  second.id = JobId("job-2");
  second.ranks = 1;
  Submit(second);
  ASSERT_EQ(job("job-2").state, JobState::kQueued);
  const auto hear_from_both = [&](absl::Time now) {
    for (const char* node : {"a", "b"}) {
      cluster_.Step(NodeReported{NodeName(node), {}}, {now, failed.wall});
    }
  };
  const absl::Time patience = failed.steady + kSettlementPatience;
  hear_from_both(patience - absl::Seconds(1));
  EXPECT_EQ(cluster_.NextDeadline(), patience);
  cluster_.Step(TimePassed{}, {patience, failed.wall});
  EXPECT_EQ(job("job-2").state, JobState::kStarting);
  EXPECT_EQ(job().state, JobState::kQueued);

  ASSERT_THAT(cluster_.TasksFor(NodeName("a")), SizeIs(1));
  const absl::Time relief = failed.steady + kTaskPatience;
  hear_from_both(relief - absl::Seconds(1));
  EXPECT_EQ(cluster_.NextDeadline(), relief);
  const Actions actions = cluster_.Step(TimePassed{}, {relief, failed.wall});
  EXPECT_THAT(cluster_.TasksFor(NodeName("a")), IsEmpty());
  EXPECT_THAT(cluster_.TasksFor(NodeName("b")), SizeIs(1));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_THAT(job().reason, HasSubstr("waits for node b to scan"));
  EXPECT_GT(cluster_.NextDeadline(), relief);
}

TEST_F(ClusterCheckpointsTest, WhatIsBeingRemovedIsNeitherPinnedNorRemovedAgain) {
  Submit(PlayedRequest());
  Train();
  Save(20);
  Save(40);
  cluster_.Step(RemovalRequested{JobId("job-1"), {20, 1}}, At(++now_));
  const CheckpointTask task = cluster_.TasksFor(NodeName("a"))[0];
  cluster_.Step(NodeReported{NodeName("a"), {}, {{task, "busy", {}}}}, At(++now_));
  cluster_.Step(PinRequested{JobId("job-1"), {20, 1}, true}, At(++now_));
  EXPECT_FALSE(FindCheckpoint(job(), {20, 1})->pinned);
  cluster_.Step(RemovalRequested{JobId("job-1"), {20, 1}}, At(++now_));
  EXPECT_EQ(FindCheckpoint(job(), {20, 1})->reason, "node a: busy") << "still so";
}

TEST_F(ClusterCheckpointsTest, OldCheckpointsAreRemovedThroughTasks) {
  JobRequest request = PlayedRequest();
  request.checkpoints.keep_latest = 2;
  Submit(request);
  Train();
  for (const int64_t step : {20, 40, 60}) Save(step);
  EXPECT_THAT(Steps(CheckpointState::kComplete), ElementsAre(40, 60));
  EXPECT_THAT(Steps(CheckpointState::kDeleting), ElementsAre(20));
  const std::vector<CheckpointTask> tasks = cluster_.TasksFor(NodeName("a"));
  ASSERT_THAT(tasks, SizeIs(1));
  EXPECT_EQ(tasks[0].directory, "/ckpt/job-1/step-000000000020.g1");
  Finish("a", tasks[0]);
  EXPECT_THAT(Steps(CheckpointState::kDeleting), IsEmpty());
}

TEST_F(ClusterCheckpointsTest, PinnedCheckpointStaysUntilItIsUnpinned) {
  JobRequest request = PlayedRequest();
  request.checkpoints.keep_latest = 1;
  Submit(request);
  Train();
  Save(20);
  cluster_.Step(PinRequested{JobId("job-1"), {20, 1}, true}, At(++now_));
  Save(40);
  EXPECT_THAT(Steps(CheckpointState::kComplete), ElementsAre(20, 40));
  EXPECT_EQ(RemovalRefused(20, true), "CHECKPOINT_PINNED");
  cluster_.Step(PinRequested{JobId("job-1"), {20, 1}, false}, At(++now_));
  EXPECT_THAT(Steps(CheckpointState::kDeleting), ElementsAre(20));
}

TEST_F(ClusterCheckpointsTest, CheckpointThatAnotherJobStartsFromIsKeptUntilThatTrainsAlone) {
  JobRequest request = PlayedRequest();
  request.checkpoints.keep_latest = 1;
  Submit(request);
  Train();
  Save(20);
  JobRequest second = PlayedRequest();
  second.id = JobId("job-2");
  second.resume_from = "/ckpt/job-1/step-000000000020.g1";
  Submit(second);
  ASSERT_EQ(job("job-2").state, JobState::kQueued);
  Save(40);
  EXPECT_THAT(Steps(CheckpointState::kComplete), ElementsAre(20, 40)) << "queued for it";
  EXPECT_EQ(RemovalRefused(20, true), "CHECKPOINT_IN_USE");
  for (int rank = 0; rank < 2; ++rank) Tell(rank, TrainerState::kExited);
  ASSERT_EQ(job("job-2").state, JobState::kStarting);
  EXPECT_THAT(Steps(CheckpointState::kComplete), ElementsAre(20, 40)) << "read by it";
  cluster_.Step(CancelRequested{JobId("job-2"), "", absl::ZeroDuration()}, At(++now_));
  for (int rank = 0; rank < 2; ++rank) {
    TrainerReport report = PlayedReport(job("job-2"), rank, TrainerState::kExited);
    report.exit = TrainerExit();
    cluster_.Step(NodeReported{NodeName(rank == 0 ? "a" : "b"), {report}}, At(++now_));
  }
  ASSERT_EQ(job("job-2").state, JobState::kCancelled);
  EXPECT_THAT(Steps(CheckpointState::kDeleting), ElementsAre(20));
}

TEST_F(ClusterCheckpointsTest, NewestIsRemovedByForceOnly) {
  Submit(PlayedRequest());
  Train();
  Save(20);
  EXPECT_EQ(RemovalRefused(20, false), "CHECKPOINT_NEWEST");
  EXPECT_EQ(RemovalRefused(20, true), "");
  Save(40);
  EXPECT_EQ(RemovalRefused(20, false), "");
  const Actions actions = cluster_.Step(RemovalRequested{JobId("job-1"), {20, 1}}, At(++now_));
  EXPECT_THAT(actions.store_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(Steps(CheckpointState::kDeleting), ElementsAre(20));
}

TEST_F(ClusterCheckpointsTest, OneThatARestartedJobReadsIsNotRemovedByForceEither) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  Submit(request);
  Train();
  Save(20);
  Fail();
  ASSERT_EQ(job().state, JobState::kQueued);
  EXPECT_EQ(RemovalRefused(20, true), "CHECKPOINT_IN_USE");
  FoundCheckpoint found;
  found.key = {20, 1};
  Finish("a", cluster_.TasksFor(NodeName("a"))[0], {found});
  ASSERT_EQ(job().state, JobState::kStarting);
  EXPECT_EQ(RemovalRefused(20, true), "CHECKPOINT_IN_USE");
  Tell(0, TrainerState::kRunning);
  EXPECT_EQ(RemovalRefused(20, true), "CHECKPOINT_IN_USE") << "rank 1 still reads";
  Tell(1, TrainerState::kRunning);
  EXPECT_EQ(RemovalRefused(20, true), "");
}

TEST_F(ClusterCheckpointsTest, OrderIsStoredBeforeItIsSentAndSurvivesTheController) {
  JobRequest request = PlayedRequest();
  request.checkpoints.every = absl::Seconds(100);
  Submit(request);
  Train();  // Since second 12.
  const Actions actions = cluster_.Step(SaveRequested{JobId("job-1"), true}, At(20));
  EXPECT_THAT(actions.store_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a"), NodeName("b")));
  EXPECT_TRUE(IsOrderPending(job()));
  Cluster again{Cluster::Options()};
  again.Restore({job()}, {}, At(100));
  EXPECT_TRUE(IsOrderPending(again.jobs().at(JobId("job-1"))));
  EXPECT_TRUE(again.jobs().at(JobId("job-1")).checkpoints.order->now);
}

TEST_F(ClusterCheckpointsTest, NextSaveIsDueAtTheSameTimeUnderTheNextController) {
  JobRequest request = PlayedRequest();
  request.checkpoints.every = absl::Seconds(100);
  Submit(request);
  Train();
  const absl::Time due = job().checkpoints.next_save_wall;
  Cluster again{Cluster::Options()};
  // On another steady clock, which is 1000 s behind.
  const Moment later{At(-940).steady, At(60).wall};
  again.Restore({job()}, {}, later);
  EXPECT_EQ(again.NextDeadline() - later.steady, due - later.wall);
  again.Step(TimePassed{}, {later.steady + (due - later.wall), due});
  EXPECT_TRUE(IsOrderPending(again.jobs().at(JobId("job-1"))));
}

TEST_F(ClusterCheckpointsTest, EndedJobIsResumedOnFewerRanks) {
  Submit(PlayedRequest());
  Train();
  Save(20);
  Fail();
  ASSERT_EQ(job().state, JobState::kFailed);
  JobRequest request = PlayedRequest();
  request.ranks = 1;
  cluster_.Step(ResumeRequested{request, ""}, At(++now_));
  EXPECT_EQ(job().state, JobState::kQueued) << "not before its directory was scanned";
  FoundCheckpoint found;
  found.key = {20, 1};
  Finish("a", cluster_.TasksFor(NodeName("a"))[0], {found});
  EXPECT_EQ(job().state, JobState::kStarting);
  EXPECT_THAT(job().ranks, SizeIs(1));
  EXPECT_EQ(job().restored_from, "/ckpt/job-1/step-000000000020.g1");
  EXPECT_EQ(job().plan.version, PlanVersion(2));
}

}  // namespace
}  // namespace paceline
