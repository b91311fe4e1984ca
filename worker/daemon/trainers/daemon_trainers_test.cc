// Commands to a daemon's trainers, and their ends, stops and logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/daemon/testing/daemon_test.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST_F(DaemonTest, RendezvousPassesThrough) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 10);
  plan.clear_store_address();
  controller_->SetPlan(NodePlanOf({plan}));
  const v1::NodeReport ready = controller_->WaitForReport(AllIn(v1::TRAINER_READY));
  plan.set_store_address(ready.trainers(0).store_address());
  EXPECT_EQ(RunOne(plan).exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
}

TEST_F(DaemonTest, PlansAndProfilesPassDownAndResultsUp) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 1000000);
  plan.mutable_plan()->set_version(1);
  controller_->SetPlan(NodePlanOf({plan}));
  const auto active = [](int64_t version) {
    return [version](const v1::NodeReport& report) {
      return report.trainers_size() > 0 && report.trainers(0).plan().active_version() == version;
    };
  };
  EXPECT_GT(controller_->WaitForReport(active(1)).trainers(0).plan().active_since_step(), 0);
  plan.mutable_plan()->set_version(2);
  plan.mutable_profile()->set_id(5);
  controller_->SetPlan(NodePlanOf({plan}));
  EXPECT_EQ(controller_->WaitForReport(active(2)).trainers(0).profile().id(), 5);
  // A restarted daemon also knows it, even when no trainer repeats it.
  End(SIGKILL);
  StartDaemon();
  const v1::NodeReport report = controller_->WaitForReport([](const v1::NodeReport& r) {
    return r.trainers_size() > 0 && r.trainers(0).profile().id() == 5 &&
           r.trainers(0).figures().steps() == 1;
  });
  EXPECT_EQ(report.trainers(0).plan().active_version(), 2);
}

TEST_F(DaemonTest, ErrorIsReportedWithPhaseStepAndLog) {
  StartDaemon();
  const v1::TrainerExit exit = RunOne(FailingPlan(12, v1::THROW)).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_ERROR);
  EXPECT_EQ(exit.message(), "thrown on purpose");
  EXPECT_EQ(exit.exit_code(), 1);
  EXPECT_EQ(exit.step(), 12);
  EXPECT_EQ(exit.phase(), v1::FORWARD);
  EXPECT_THAT(exit.log_tail(), HasSubstr("step 11\nabout to fail ?\n"));
  EXPECT_LE(Count(exit.log_tail(), "\n"), 20);
}

TEST_F(DaemonTest, OnlyItsNodesFaultsReachATrainer) {
  StartDaemon();
  v1::TrainerPlan plan = FailingPlan(3, v1::EXIT);
  plan.mutable_spec()->mutable_chaos(0)->set_node("node-b");
  *plan.mutable_spec()->add_chaos() = plan.spec().chaos(0);
  plan.mutable_spec()->mutable_chaos(1)->set_node("node-a");
  plan.mutable_spec()->mutable_chaos(1)->set_step(5);
  EXPECT_EQ(RunOne(plan).exit().step(), 5);
}

TEST_F(DaemonTest, SignalAndExitCodeAreReported) {
  StartDaemon();
  const v1::TrainerExit aborted = RunOne(FailingPlan(3, v1::ABORT)).exit();
  EXPECT_EQ(aborted.failure(), v1::FAILURE_SIGNAL);
  EXPECT_EQ(aborted.signal(), SIGABRT);
  EXPECT_EQ(aborted.step(), 3);
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
  v1::TrainerPlan plan = FailingPlan(3, v1::EXIT);
  plan.mutable_id()->set_generation(2);
  const v1::TrainerExit exited = RunOne(plan).exit();
  EXPECT_EQ(exited.failure(), v1::FAILURE_EXIT_CODE);
  EXPECT_EQ(exited.exit_code(), 42);
}

TEST_F(DaemonTest, KilledTrainerIsReportedWithinATenthOfASecond) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({FailingPlan(5, v1::SLEEP)}));
  const v1::NodeReport running = controller_->WaitForReport([](const v1::NodeReport& report) {
    return AllIn(v1::TRAINER_RUNNING)(report) && report.trainers(0).progress().step() == 5 &&
           report.trainers(0).progress().phase_s() > 0.3;
  });
  const absl::Time killed = absl::Now();
  ::kill(static_cast<pid_t>(running.trainers(0).pid()), SIGKILL);
  const v1::NodeReport ended = controller_->WaitForReport(AllIn(v1::TRAINER_EXITED));
  EXPECT_LT(absl::Now() - killed, absl::Milliseconds(100));
  const v1::TrainerExit& exit = ended.trainers(0).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_SIGNAL);
  EXPECT_EQ(exit.signal(), SIGKILL);
  EXPECT_EQ(exit.phase(), v1::FORWARD);
  EXPECT_GT(exit.phase_s(), 0.3);
}

TEST_F(DaemonTest, TrainerThatCannotBeStartedIsReported) {
  std::vector<std::string> arguments = Arguments();
  *std::find(arguments.begin(), arguments.end(), "worker/daemon/testing/fake_trainer") =
      "/nonexistent/trainer";
  daemon_ = Spawn(arguments, root_ + "/log");
  const v1::TrainerExit exit = RunOne(Plan(0, 10)).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_START);
  EXPECT_THAT(exit.message(), HasSubstr("/nonexistent/trainer"));
}

TEST_F(DaemonTest, StopIsGraceful) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 1000000);
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllBeyond(5));
  plan.mutable_stop()->set_grace_s(30);
  const v1::TrainerReport ended = RunOne(plan);
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
  EXPECT_EQ(ended.exit().exit_code(), 0);
  EXPECT_EQ(ended.exit().signal(), 0);
}

TEST_F(DaemonTest, StubbornTrainerIsKilledAfterTheGrace) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 1000000);
  plan.mutable_spec()->set_name("stubborn");
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllBeyond(5));
  plan.mutable_stop()->set_grace_s(0.2);
  const v1::TrainerReport ended = RunOne(plan);
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
  EXPECT_EQ(ended.exit().signal(), SIGKILL);
}

TEST_F(DaemonTest, LogIsReadAcrossRotations) {
  StartDaemon();
  RunOne(Plan(0, 1000));
  EXPECT_GT(std::distance(fs::directory_iterator(OwnDir(0) + "/log"), fs::directory_iterator()), 3);
  v1::LogRequest request;
  request.mutable_trainer()->set_job_id(kJob);
  request.mutable_trainer()->set_generation(1);
  std::string log;
  for (bool end = false; !end;) {
    request.set_offset(static_cast<int64_t>(log.size()));
    const v1::LogData part = controller_->AskForLog(request);
    EXPECT_EQ(part.offset(), static_cast<int64_t>(log.size()));
    log += part.data();
    end = part.end();
  }
  std::string expected = "hello from rank 0\nstore at 127.0.0.1:5000\n";
  for (int step = 0; step < 1000; ++step) absl::StrAppend(&expected, "step ", step, "\n");
  EXPECT_EQ(log, expected);

  // The log is kept when the trainer is no longer in the plan.
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
  request.set_tail_lines(2);
  EXPECT_EQ(controller_->AskForLog(request).data(), "step 998\nstep 999\n");
}

TEST_F(DaemonTest, FollowedLogGoesOnUntilTheTrainerHasEnded) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 300)}));
  controller_->WaitForReport(AllBeyond(2));
  v1::LogRequest request;
  request.mutable_trainer()->set_job_id(kJob);
  request.mutable_trainer()->set_generation(1);
  request.set_follow(true);
  std::string log;
  for (bool end = false; !end;) {
    request.set_offset(static_cast<int64_t>(log.size()));
    const v1::LogData part = controller_->AskForLog(request);
    log += part.data();
    end = part.end();
  }
  EXPECT_THAT(log, HasSubstr("\nstep 299\n"));
}

}  // namespace
}  // namespace paceline
