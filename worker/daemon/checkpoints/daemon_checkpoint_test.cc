// Checkpoint traffic through the daemon: orders and restores go down, saves go up; requests to stop
// other trainers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <functional>
#include <string>

#include "absl/time/clock.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/testing/written_checkpoint.h"
#include "worker/daemon/testing/daemon_test.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

v1::TrainerPlan SavingPlan(int64_t steps) {
  v1::TrainerPlan plan = Plan(0, steps);
  plan.mutable_spec()->mutable_checkpoint()->set_directory("/unused");
  return plan;
}

v1::SaveStatus LastSave(const v1::NodeReport& report) {
  if (report.trainers_size() == 0 || report.trainers(0).saves().empty()) return {};
  return *report.trainers(0).saves().rbegin();
}

class DaemonCheckpointTest : public DaemonTest {
 protected:
  // Asks for a save and waits until the trainer's part is durable. Returns its step.
  int64_t Save(v1::TrainerPlan* plan) {
    const int64_t number = plan->checkpoints().save().number() + 1;
    plan->mutable_checkpoints()->mutable_save()->set_number(number);
    controller_->SetPlan(NodePlanOf({*plan}));
    return LastSave(controller_->WaitForReport([&](const v1::NodeReport& report) {
             const v1::SaveStatus& save = LastSave(report);
             return save.order() == number && save.state() == v1::SAVE_DURABLE;
           }))
        .step();
  }
};

TEST_F(DaemonCheckpointTest, OrdersPassDownAndSavesUp) {
  StartDaemon();
  v1::TrainerPlan plan = SavingPlan(1000000);
  plan.set_restore_from("/c/step-000000000007.g1");
  const int64_t step = Save(&plan);
  EXPECT_GT(step, 0);
  EXPECT_THAT(Contents(OwnDir(0) + "/log/00000000000000000000.log"),
              HasSubstr("restored from /c/step-000000000007.g1\n"));
  plan.mutable_checkpoints()->add_commit_steps(step);
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport([&](const v1::NodeReport& report) {
    return LastSave(report).state() == v1::SAVE_COMMITTED &&
           report.trainers(0).checkpoints().saves() == 1;
  });
  // A restarted daemon reports it at once.
  End(SIGKILL);
  StartDaemon();
  const v1::NodeReport report = controller_->WaitForHello(2).report();
  EXPECT_EQ(LastSave(report).step(), step);
  EXPECT_EQ(LastSave(report).state(), v1::SAVE_COMMITTED);
}

TEST_F(DaemonCheckpointTest, SavesAreReportedAtOnceAndFiguresAreNot) {
  controller_->SetReportInterval(absl::Hours(24));
  StartDaemon();
  v1::TrainerPlan plan = SavingPlan(1000000);
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllIn(v1::TRAINER_RUNNING));
  Save(&plan);
  // The trainer's figures change at each step, about a thousand times a second.
  const int reports = controller_->Reports();
  const absl::Time until = absl::Now() + absl::Seconds(1);
  EXPECT_TRUE(Eventually([&] { return absl::Now() > until; }));
  EXPECT_LE(controller_->Reports(), reports + 1);
}

TEST_F(DaemonCheckpointTest, RequestOfSomebodyElseIsReportedAndTheWordOfTheControllerCounts) {
  StartDaemon();
  v1::TrainerPlan plan = SavingPlan(1000000);
  controller_->SetPlan(NodePlanOf({plan}));
  const v1::NodeReport running = controller_->WaitForReport(AllBeyond(5));
  EXPECT_FALSE(running.trainers(0).asked_to_end());
  ::kill(static_cast<pid_t>(running.trainers(0).pid()), SIGTERM);
  const v1::NodeReport asked = controller_->WaitForReport(
      [](const v1::NodeReport& report) { return report.trainers(0).asked_to_end(); });
  controller_->WaitForReport(AllBeyond(asked.trainers(0).progress().step() + 20));
  plan.mutable_stop()->set_grace_s(30);
  const v1::TrainerReport ended = RunOne(plan);
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
  EXPECT_EQ(ended.exit().exit_code(), 0);
  EXPECT_EQ(ended.exit().signal(), 0);
  EXPECT_TRUE(ended.asked_to_end());
}

TEST_F(DaemonCheckpointTest, UnlistedTrainerHearsThatTheDaemonEndsIt) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({SavingPlan(1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  controller_->SetPlan(NodePlanOf({}));
  WaitForLog("reason=\"stopped on request: exited with code 0\"");
}

TEST_F(DaemonCheckpointTest, StopIsNotTakenBack) {
  StartDaemon();
  v1::TrainerPlan plan = SavingPlan(1000000);
  plan.mutable_spec()->set_name("stubborn");
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllBeyond(5));
  controller_->SetPlan(NodePlanOf({}));
  WaitForLog("trainer_asked_to_stop");
  // Listed again: after its restart the daemon still knows about the stop.
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.plan_revision() >= 3; });
  v1::TrainerPlan kept;
  ASSERT_TRUE(kept.ParseFromString(Contents(TrainerDir(0) + "/plan")));
  EXPECT_TRUE(kept.has_stop());
}

// The fake trainer's last words lack the first save and know more about the others.
TEST_F(DaemonCheckpointTest, LastWordsAndWhatWasHeardBeforeAddUp) {
  StartDaemon();
  v1::TrainerPlan plan = SavingPlan(1000000);
  plan.mutable_spec()->set_name("forgetful");
  const int64_t first = Save(&plan);
  const int64_t second = Save(&plan);
  plan.mutable_stop()->set_grace_s(30);
  const v1::TrainerReport ended = RunOne(plan);
  ASSERT_EQ(ended.saves_size(), 2);
  EXPECT_EQ(ended.saves(0).step(), first);
  EXPECT_EQ(ended.saves(0).state(), v1::SAVE_DURABLE);
  EXPECT_EQ(ended.saves(1).step(), second);
  EXPECT_EQ(ended.saves(1).state(), v1::SAVE_COMMITTED);
  EXPECT_EQ(ended.checkpoints().saves(), 2);
}

TEST_F(DaemonCheckpointTest, SavesOfAKilledTrainerAreKnown) {
  StartDaemon();
  v1::TrainerPlan plan = SavingPlan(1000000);
  const int64_t step = Save(&plan);
  const v1::NodeReport running = controller_->WaitForReport(AllBeyond(5));
  ::kill(static_cast<pid_t>(running.trainers(0).pid()), SIGKILL);
  const v1::NodeReport ended = controller_->WaitForReport(AllIn(v1::TRAINER_EXITED));
  EXPECT_EQ(LastSave(ended).step(), step);
  EXPECT_EQ(LastSave(ended).state(), v1::SAVE_DURABLE);
}

v1::CheckpointTask Task(v1::CheckpointTask::Kind kind, const std::string& directory) {
  v1::CheckpointTask task;
  task.set_kind(kind);
  task.set_directory(directory);
  task.set_generation(1);
  return task;
}

std::function<bool(const v1::NodeReport&)> HasResults(int count) {
  return [count](const v1::NodeReport& report) { return report.task_results_size() == count; };
}

TEST_F(DaemonCheckpointTest, TasksOfAPlanAreDoneAndToldAsLongAsTheyAreListed) {
  const std::string job = root_ + "/checkpoints/job-1";
  const std::string directory = job + "/" + CheckpointName({20, 1});
  fs::create_directories(job);
  ASSERT_TRUE(WriteExampleCheckpoint(directory, 20, 1).ok());
  StartDaemon();
  v1::NodePlan plan = NodePlanOf({Plan(0, 1000000)});
  *plan.add_tasks() = Task(v1::CheckpointTask::SETTLE, job);
  *plan.add_tasks() = Task(v1::CheckpointTask::REMOVE, job);
  controller_->SetPlan(plan);
  const v1::NodeReport report = controller_->WaitForReport(HasResults(2));
  EXPECT_EQ(report.task_results(0).error(), "");
  ASSERT_EQ(report.task_results(0).found_size(), 1);
  EXPECT_EQ(report.task_results(0).found(0).step(), 20);
  EXPECT_NE(report.task_results(1).error(), "") << "not a checkpoint, and yet removed";

  plan.clear_tasks();
  *plan.add_tasks() = Task(v1::CheckpointTask::REMOVE, directory);
  controller_->SetPlan(plan);
  const v1::NodeReport next = controller_->WaitForReport([&](const v1::NodeReport& r) {
    return HasResults(1)(r) && r.task_results(0).task().directory() == directory;
  });
  EXPECT_EQ(next.task_results(0).error(), "");
  EXPECT_FALSE(fs::exists(directory));
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForReport(HasResults(0));
}

}  // namespace
}  // namespace paceline
