#include "controller/core/checkpoint/checkpoint_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/recovery/restart.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kSettle = CheckpointTask::Kind::kSettle;
constexpr auto kRemove = CheckpointTask::Kind::kRemove;
constexpr auto kReady = NodeState::kReady;
constexpr auto kGone = NodeState::kUnreachable;
const NodeName kA("a");

// A job that failed after checkpoints of steps 20 and 40, and is to be restarted.
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

CheckpointTask Settle(int64_t generation = 1) {
  CheckpointTask task;
  task.kind = kSettle;
  task.directory = "/ckpt/job-1";
  task.generation = Generation(generation);
  task.must_exist = true;
  return task;
}

CheckpointTask Remove(const char* name, bool incomplete_only = false) {
  CheckpointTask task;
  task.kind = kRemove;
  task.directory = absl::StrCat("/ckpt/job-1/", name);
  task.incomplete_only = incomplete_only;
  return task;
}

CheckpointTaskResult Settled(std::vector<FoundCheckpoint> found, int64_t generation = 1) {
  return {Settle(generation), "", std::move(found)};
}

std::map<NodeName, Node> Nodes(const std::vector<std::pair<const char*, NodeState>>& states) {
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
  EXPECT_THAT(TasksOf(job), ElementsAre(Settle()));
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

TEST(CheckpointTasksTest, TimesOfCheckpointsAreInTheirOrderWhateverTheClocksOfNodesSay) {
  Job job = QueuedJob();
  FoundCheckpoint between = Found(30);
  between.created = At(9).wall;  // By a clock that is ahead.
  FoundCheckpoint newest = Found(60);
  newest.created = At(3.5).wall;  // Before the controller heard of step 40.
  TakeTaskResult(job, kA, Settled({Found(20), between, Found(40), newest}), At(6));
  std::vector<absl::Time> times;
  for (const Checkpoint& record : job.checkpoints.records) times.push_back(record.created);
  EXPECT_THAT(times, ElementsAre(At(3).wall, At(4).wall, At(4).wall, At(4).wall));
}

TEST(CheckpointTasksTest, CheckpointElsewhereIsNotLookedForAndIsStartedFromAndRemovedThere) {
  JobRequest request = PlayedRequest();
  request.max_restarts = 1;
  Job job = RunningJob(request);
  OrderSave(job, false, "by a user", At(3), "/spare");
  SaveAll(job, 20, At(4), /*order=*/1);
  FailRank1(job, FailureKind::kSignal, At(5));
  CheckpointTask settle = Settle();
  settle.must_exist = false;  // No checkpoint is known in the job's own directory.
  EXPECT_THAT(TasksOf(job), ElementsAre(settle));
  TakeTaskResult(job, kA, {settle, "", {}}, At(6));
  EXPECT_EQ(job.state, JobState::kQueued) << job.reason;
  EXPECT_EQ(ChooseStart(job), "/spare/job-1/step-000000000020.g1");

  FindCheckpoint(job, {20, 1})->state = CheckpointState::kDeleting;
  CheckpointTask remove = Remove("");
  remove.directory = "/spare/job-1/step-000000000020.g1";
  EXPECT_THAT(TasksOf(job), ElementsAre(remove));
  TakeTaskResult(job, kA, {remove, "", {}}, At(7));
  EXPECT_THAT(job.checkpoints.records, IsEmpty());
}

TEST(CheckpointTasksTest, CheckpointElsewhereThatNobodyLivedToTellOfIsAdopted) {
  Job job = RunningJob();
  OrderSave(job, false, "by a user", At(3), "/spare");
  for (const int rank : {0, 1}) TellSaves(job, rank, {Reported(20, SaveState::kDurable, 1)}, At(4));
  FailRank1(job, FailureKind::kSignal, At(5));
  job.checkpoints.settlement.reset();
  CheckpointTask look = Remove("", /*incomplete_only=*/true);
  look.directory = "/spare/job-1/step-000000000020.g1";
  EXPECT_THAT(TasksOf(job), ElementsAre(look));
  EXPECT_EQ(TakeTaskResult(job, kA, {look, "", {Found(20)}}, At(6)), JobChange::kState);
  EXPECT_THAT(TasksOf(job), IsEmpty());
  ASSERT_NE(NewestComplete(job), nullptr);
  EXPECT_EQ(DirectoryOf(job, *NewestComplete(job)), look.directory);
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

TEST(CheckpointTasksTest, SettlingBesideALaterGenerationLeavesItsCheckpointsAlone) {
  Job job = RunningJob();
  SaveAll(job, 20, At(3));
  SaveAll(job, 40, At(4));
  FindCheckpoint(job, {40, 1})->key.generation = 2;  // Completed after the node had looked.
  job.generation = Generation(2);
  job.checkpoints.settlement = Settlement{Generation(1), ""};
  CheckpointTaskResult result;
  result.task = Settle();
  result.found = {Found(30), Found(50, 2)};
  EXPECT_EQ(TakeTaskResult(job, kA, result, At(6)), JobChange::kState);
  EXPECT_EQ(FindCheckpoint(job, {20, 1}), nullptr);
  EXPECT_NE(FindCheckpoint(job, {30, 1}), nullptr);
  EXPECT_EQ(FindCheckpoint(job, {40, 2})->state, CheckpointState::kComplete);
  EXPECT_EQ(FindCheckpoint(job, {50, 2}), nullptr) << "its ranks will tell";
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
  const auto assignment = AssignTasks(job, Nodes({{"b", kReady}}), nullptr, At(7).steady);
  EXPECT_THAT(WaitsForSettlement(job, &*assignment), HasSubstr("permission denied"));
}

TEST(CheckpointTasksTest, RemnantsAndLeavingCheckpointsAreRemovedAndThenForgotten) {
  Job job = RunningJob();
  SaveAll(job, 20, At(3));
  SaveAll(job, 40, At(4));
  TellSaves(job, 0, {Reported(60, SaveState::kFailed)}, At(5));
  TellSaves(job, 1, {Reported(60, SaveState::kDurable)}, At(5));
  FindCheckpoint(job, {20, 1})->state = CheckpointState::kDeleting;
  const CheckpointTask remnant = Remove("step-000000000060.g1", /*incomplete_only=*/true);
  const CheckpointTask leaving = Remove("step-000000000020.g1");
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
  const CheckpointTask task = Remove("step-000000000020.g1");
  EXPECT_EQ(TakeTaskResult(job, kA, {task, "", {}}, At(6)), JobChange::kNone);
  EXPECT_THAT(job.checkpoints.records, SizeIs(1));
}

TEST(CheckpointTasksTest, RemnantThatIsFoundCompleteIsAdoptedAndNotRemoved) {
  Job job = RunningJob();
  TellSaves(job, 1, {Reported(60, SaveState::kDurable)}, At(5));
  TellSaves(job, 0, {Reported(60, SaveState::kFailed)}, At(5));
  FailRank1(job, FailureKind::kSignal, At(6));
  ASSERT_THAT(TasksOf(job), SizeIs(2));
  CheckpointTaskResult result = Settled({Found(60)});
  result.task.must_exist = false;
  TakeTaskResult(job, kA, result, At(7));
  ASSERT_NE(NewestComplete(job), nullptr);
  EXPECT_EQ(NewestComplete(job)->key, (CheckpointKey{60, 1}));
  EXPECT_THAT(TasksOf(job), IsEmpty());
}

TEST(CheckpointTasksTest, DirectoryMustExistIfCheckpointsInItAreKnown) {
  Job job = QueuedJob();
  EXPECT_TRUE(TasksOf(job)[0].must_exist);
  for (Checkpoint& record : job.checkpoints.records) record.state = CheckpointState::kDeleting;
  EXPECT_FALSE(TasksOf(job)[0].must_exist) << "nobody wants them any more";
  job.checkpoints.records.clear();
  EXPECT_FALSE(TasksOf(job)[0].must_exist) << "nothing may have been saved";
}

TEST(CheckpointTasksTest, NewestOneThatIsGoneIsNoReasonToBeginAnew) {
  Job job = QueuedJob(/*previous_on_damage=*/true);
  TakeTaskResult(job, kA, Settled({}), At(6));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_THAT(job.reason, HasSubstr("there is no older one to go on from"));
}

// Follows which node does the job's tasks as time goes by.
class TaskNodeTest : public ::testing::Test {
 protected:
  std::string Assign(const std::vector<std::pair<const char*, NodeState>>& states, double seconds) {
    assignment_ = AssignTasks(
        job_, Nodes(states), assignment_.has_value() ? &*assignment_ : nullptr, At(seconds).steady);
    return assignment_.has_value() ? assignment_->node.value() : "";
  }

  Job job_ = QueuedJob();
  std::optional<TaskAssignment> assignment_;
};

TEST_F(TaskNodeTest, NodeOfTheRanksIsPreferredAndAnotherTakesOver) {
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kReady}, {"b", kReady}}, 6), "a");
  EXPECT_EQ(WaitsForSettlement(job_, &*assignment_),
            "waits for node a to scan /ckpt/job-1 for checkpoints");
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kGone}, {"b", kReady}}, 7), "b");
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kGone}, {"b", kGone}}, 8), "0");
  EXPECT_EQ(Assign({{"a", kGone}}, 9), "");
  EXPECT_THAT(WaitsForSettlement(job_, nullptr), HasSubstr("no node answers"));
}

TEST_F(TaskNodeTest, NodeWithoutAnAnswerIsRelievedAfterAWhile) {
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kReady}, {"b", kReady}}, 6), "a");
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kReady}, {"b", kReady}}, 65), "a");
  EXPECT_EQ(assignment_->deadline, At(66).steady);
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kReady}, {"b", kReady}}, 66), "b");
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kReady}, {"b", kReady}}, 125), "b");
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kReady}, {"b", kReady}}, 126), "0");
  EXPECT_EQ(Assign({{"0", kReady}, {"a", kReady}, {"b", kReady}}, 186), "a") << "from the start";
  EXPECT_EQ(Assign({{"a", kReady}}, 300), "a") << "there is no other";
  EXPECT_EQ(assignment_->deadline, At(360).steady);
}

TEST_F(TaskNodeTest, NodeThatGetsOnKeepsTheTasks) {
  job_ = RunningJob();
  for (const int64_t step : {20, 40, 60}) SaveAll(job_, step, At(3));
  FindCheckpoint(job_, {20, 1})->state = CheckpointState::kDeleting;
  EXPECT_EQ(Assign({{"a", kReady}, {"b", kReady}}, 6), "a");
  FindCheckpoint(job_, {40, 1})->state = CheckpointState::kDeleting;
  EXPECT_EQ(Assign({{"a", kReady}, {"b", kReady}}, 50), "a");
  EXPECT_EQ(assignment_->deadline, At(66).steady) << "more work is no sign of life";
  DropCheckpoint(job_, {20, 1});
  EXPECT_EQ(Assign({{"a", kReady}, {"b", kReady}}, 65), "a");
  EXPECT_EQ(assignment_->deadline, At(125).steady);
}

TEST(CheckpointTasksTest, PlaceInTheQueueIsKeptForAWhile) {
  Job job = QueuedJob();  // Since second 5.
  EXPECT_TRUE(KeepsPlaceInQueue(job));
  EXPECT_EQ(NextDeadline(job), At(15).steady);
  TickJob(job, At(14.9));
  EXPECT_TRUE(KeepsPlaceInQueue(job));
  EXPECT_EQ(TickJob(job, At(15)), JobChange::kProgress);
  EXPECT_FALSE(KeepsPlaceInQueue(job));
  EXPECT_EQ(NextDeadline(job), absl::InfiniteFuture());
}

}  // namespace
}  // namespace paceline
