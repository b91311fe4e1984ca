#include "controller/core/checkpoint_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/core/job_checkpoints.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kSettle = CheckpointTask::Kind::kSettle;
constexpr auto kRemove = CheckpointTask::Kind::kRemove;
const NodeName kA("a");

// Failed after checkpoints of steps 20 and 40, and is to be restarted.
Job QueuedJob(bool previous_on_damage = false) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  request.checkpoints.previous_on_damage = previous_on_damage;
  Job job = RunningJob(request);
  SaveAll(job, 20, At(3));
  SaveAll(job, 40, At(4));
  FailRank1(job, FailureKind::kSignal, At(5));
  return job;
}

FoundCheckpoint Found(int64_t step, int64_t generation = 1) {
  FoundCheckpoint found;
  found.key = {step, generation};
  found.bytes = 300;
  found.ranks = 2;
  found.created = At(4.5).wall;
  return found;
}

CheckpointTaskResult Settled(std::vector<FoundCheckpoint> found, int64_t generation = 1) {
  return {{kSettle, "/ckpt/job-1", Generation(generation)}, "", std::move(found)};
}

std::map<NodeName, Node> Nodes(std::vector<std::pair<const char*, NodeState>> states) {
  std::map<NodeName, Node> nodes;
  for (const auto& [name, state] : states) {
    Node& node = nodes[NodeName(name)];
    node.facts.name = NodeName(name);
    node.state = state;
  }
  return nodes;
}

TEST(CheckpointTasksTest, EndedGenerationIsSettledOnce) {
  EXPECT_THAT(TasksOf(RunningJob()), IsEmpty());
  Job job = QueuedJob();
  EXPECT_THAT(TasksOf(job), ElementsAre(CheckpointTask{kSettle, "/ckpt/job-1", Generation(1)}));
  EXPECT_EQ(TakeTaskResult(job, kA, Settled({Found(20), Found(40)}), At(6)), JobChange::kState);
  EXPECT_THAT(TasksOf(job), IsEmpty());
  EXPECT_EQ(TakeTaskResult(job, kA, Settled({Found(20)}), At(6)), JobChange::kNone) << "a repeat";
  EXPECT_THAT(job.checkpoints.records, SizeIs(2));
  EXPECT_EQ(job.checkpoints.committed, 2);
}

TEST(CheckpointTasksTest, ResultForAnotherGenerationOrDirectoryChangesNothing) {
  Job job = QueuedJob();
  EXPECT_EQ(TakeTaskResult(job, kA, Settled({}, 2), At(6)), JobChange::kNone);
  CheckpointTaskResult elsewhere = Settled({});
  elsewhere.task.directory = "/ckpt/job-2";
  EXPECT_EQ(TakeTaskResult(job, kA, elsewhere, At(6)), JobChange::kNone);
  EXPECT_TRUE(job.checkpoints.settlement.has_value());
}

TEST(CheckpointTasksTest, CheckpointThatNobodyLivedToTellOfIsAdopted) {
  Job job = QueuedJob();
  TakeTaskResult(job, kA, Settled({Found(20), Found(40), Found(60)}), At(6));
  const Checkpoint* newest = NewestComplete(job);
  EXPECT_EQ(newest->key, (CheckpointKey{60, 1}));
  EXPECT_EQ(newest->bytes, 300);
  EXPECT_EQ(newest->created, At(4.5).wall);
  EXPECT_EQ(job.checkpoints.committed, 3);
}

TEST(CheckpointTasksTest, OlderOneThatIsGoneIsStruckOff) {
  Job job = QueuedJob();
  TakeTaskResult(job, kA, Settled({Found(40)}), At(6));
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_EQ(FindCheckpoint(job, {20, 1}), nullptr);
  EXPECT_THAT(job.checkpoints.last_error,
              HasSubstr("step-000000000020.g1 is not complete on disk"));
}

TEST(CheckpointTasksTest, NewestOneThatIsGoneEndsTheJobUnlessThePreviousIsAllowed) {
  Job job = QueuedJob();
  TakeTaskResult(job, kA, Settled({Found(20)}), At(6));
  EXPECT_EQ(FindCheckpoint(job, {40, 1})->state, CheckpointState::kDamaged);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_THAT(job.reason, HasSubstr("--from job-1/20.g1"));

  Job tolerant = QueuedJob(/*previous_on_damage=*/true);
  TakeTaskResult(tolerant, kA, Settled({Found(20)}), At(6));
  EXPECT_EQ(tolerant.state, JobState::kQueued);
  EXPECT_EQ(NewestComplete(tolerant)->key, (CheckpointKey{20, 1}));
}

TEST(CheckpointTasksTest, OneThatIsGoneDoesNotMatterWhenANewerOneIsFound) {
  Job job = QueuedJob();
  TakeTaskResult(job, kA, Settled({Found(20), Found(10, 2)}), At(6));
  EXPECT_EQ(job.state, JobState::kQueued);
}

TEST(CheckpointTasksTest, ErrorIsShownAndTheTaskStays) {
  Job job = QueuedJob();
  CheckpointTaskResult result = Settled({});
  result.error = "permission denied";
  EXPECT_EQ(TakeTaskResult(job, kA, result, At(6)), JobChange::kProgress);
  EXPECT_EQ(TakeTaskResult(job, kA, result, At(7)), JobChange::kNone);
  EXPECT_THAT(TasksOf(job), SizeIs(1));
  EXPECT_THAT(job.checkpoints.records, SizeIs(2));
  EXPECT_THAT(job.checkpoints.last_error, HasSubstr("node a: permission denied"));
  EXPECT_THAT(WaitsForSettlement(job, Nodes({{"b", NodeState::kReady}})),
              HasSubstr("permission denied"));
}

TEST(CheckpointTasksTest, RemnantsAndLeavingCheckpointsAreRemovedAndThenForgotten) {
  Job job = RunningJob();
  SaveAll(job, 20, At(3));
  SaveAll(job, 40, At(4));
  TellSaves(job, 0, {Told(60, SaveState::kFailed)}, At(5));
  TellSaves(job, 1, {Told(60, SaveState::kDurable)}, At(5));
  FindCheckpoint(job, {20, 1})->state = CheckpointState::kDeleting;
  const CheckpointTask remnant{kRemove, "/ckpt/job-1/step-000000000060.g1", Generation(0)};
  const CheckpointTask leaving{kRemove, "/ckpt/job-1/step-000000000020.g1", Generation(0)};
  EXPECT_THAT(TasksOf(job), ElementsAre(remnant, leaving));
  EXPECT_EQ(TakeTaskResult(job, kA, {leaving, "busy", {}}, At(6)), JobChange::kProgress);
  EXPECT_EQ(FindCheckpoint(job, {20, 1})->reason, "node a: busy");
  EXPECT_EQ(TakeTaskResult(job, kA, {leaving, "", {}}, At(6)), JobChange::kState);
  EXPECT_EQ(TakeTaskResult(job, kA, {remnant, "busy", {}}, At(6)), JobChange::kNone);
  EXPECT_EQ(TakeTaskResult(job, kA, {remnant, "", {}}, At(6)), JobChange::kState);
  EXPECT_THAT(TasksOf(job), IsEmpty());
  EXPECT_THAT(job.checkpoints.records, SizeIs(1));
}

TEST(CheckpointTasksTest, CompleteCheckpointIsNeverDroppedByAResultThatNobodyAskedFor) {
  Job job = RunningJob();
  SaveAll(job, 20, At(3));
  const CheckpointTask task{kRemove, "/ckpt/job-1/step-000000000020.g1", Generation(0)};
  EXPECT_EQ(TakeTaskResult(job, kA, {task, "", {}}, At(6)), JobChange::kNone);
  EXPECT_THAT(job.checkpoints.records, SizeIs(1));
}

TEST(CheckpointTasksTest, RemnantThatIsFoundCompleteIsNotAdopted) {
  Job job = RunningJob();
  TellSaves(job, 1, {Told(60, SaveState::kDurable)}, At(5));
  TellSaves(job, 0, {Told(60, SaveState::kFailed)}, At(5));
  FailRank1(job, FailureKind::kSignal, At(6));
  TakeTaskResult(job, kA, Settled({Found(60)}), At(7));
  EXPECT_THAT(job.checkpoints.records, IsEmpty());
  EXPECT_THAT(TasksOf(job), SizeIs(1));
}

TEST(CheckpointTasksTest, NodeOfTheRanksIsPreferredAndAnotherTakesOver) {
  const Job job = QueuedJob();
  const auto chosen = [&](std::vector<std::pair<const char*, NodeState>> states) {
    const std::map<NodeName, Node> nodes = Nodes(std::move(states));
    const Node* node = ChooseTaskNode(job, nodes);
    return node == nullptr ? "" : node->facts.name.value();
  };
  constexpr auto kReady = NodeState::kReady;
  constexpr auto kGone = NodeState::kUnreachable;
  EXPECT_EQ(chosen({{"0", kReady}, {"a", kReady}, {"b", kReady}}), "a");
  EXPECT_EQ(chosen({{"0", kReady}, {"a", kGone}, {"b", kReady}}), "b");
  EXPECT_EQ(chosen({{"0", kReady}, {"a", kGone}, {"b", kGone}}), "0");
  EXPECT_EQ(chosen({{"a", kGone}}), "");
  EXPECT_EQ(WaitsForSettlement(job, Nodes({{"b", kReady}})),
            "waits until /ckpt/job-1 was looked through on node b");
  EXPECT_THAT(WaitsForSettlement(job, {}), HasSubstr("no node answers"));
}

}  // namespace
}  // namespace paceline
