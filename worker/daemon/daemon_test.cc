// The life of the daemon: registration, ends and restarts of each process, exit codes.
#include "worker/daemon/testing/daemon_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/exit_codes.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST_F(DaemonTest, RegistersAndRunsTrainersToTheEnd) {
  StartDaemon();
  const v1::Hello hello = controller_->WaitForHello();
  EXPECT_EQ(hello.node(), "node-a");
  EXPECT_EQ(hello.node_uid().size(), 36);
  EXPECT_EQ(hello.cluster_id(), "");
  EXPECT_GT(hello.slots(), 0);
  EXPECT_EQ(hello.address(), "127.0.0.1");
  EXPECT_THAT(hello.metrics_address(), HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(Eventually([&] {
    return Contents(root_ + "/address").find(hello.metrics_address()) != std::string::npos;
  }));

  controller_->SetPlan(NodePlanOf({Plan(0, 50), Plan(1, 60)}));
  const v1::NodeReport report = controller_->WaitForReport(AllIn(v1::TRAINER_EXITED));
  EXPECT_EQ(report.plan_revision(), 1);
  for (const v1::TrainerReport& trainer : report.trainers()) {
    EXPECT_EQ(trainer.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED) << trainer.DebugString();
    EXPECT_EQ(trainer.progress().step(), 50 + 10 * trainer.id().rank());
    EXPECT_EQ(trainer.progress().loss(), 0.5);
    EXPECT_EQ(trainer.evaluation().accuracy(), 0.75);
    const std::string secret = Contents(TrainerDir(trainer.id().rank()) + "/store_secret");
    EXPECT_EQ(secret.size(), 36);
    EXPECT_EQ(trainer.store_address(),
              absl::StrCat("127.0.0.1:", 5000 + trainer.id().rank(), "/", secret));
  }
  EXPECT_TRUE(Eventually([&] { return controller_->Steps().size() == 110; }));
  EXPECT_TRUE(Eventually([&] { return !RingExists(0); }));
}

TEST_F(DaemonTest, KilledDaemonComesBackToTheSameTrainers) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000), Plan(1, 1000000)}));
  const v1::NodeReport before = controller_->WaitForReport(AllBeyond(5));
  End(SIGKILL);
  StartDaemon();
  const v1::Hello hello = controller_->WaitForHello(2);
  EXPECT_EQ(hello.cluster_id(), FakeController::kCluster);
  EXPECT_EQ(hello.report().trainers_size(), 2);
  // The restarted daemon knows its trainers at once: none looks newly started.
  EXPECT_TRUE(AllIn(v1::TRAINER_RUNNING)(hello.report())) << hello.DebugString();
  const v1::NodeReport after =
      controller_->WaitForReport(AllBeyond(before.trainers(0).progress().step() + 50));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(after.trainers(i).pid(), before.trainers(i).pid());
  WaitForLog("trainer_adopted", 2);
  // The trainers still obey.
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
}

TEST_F(DaemonTest, EndWhileTheDaemonWasAwayIsStillKnown) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({FailingPlan(4, v1::SLEEP)}));
  const v1::NodeReport before = controller_->WaitForReport(AllBeyond(3));
  End(SIGKILL);
  ::kill(static_cast<pid_t>(before.trainers(0).pid()), SIGUSR2);
  const std::string dir = TrainerDir(0);
  ASSERT_TRUE(Eventually([&] { return !ReadTrainerLock(dir)->alive; }));
  for (int restart = 0; restart < 2; ++restart) {
    StartDaemon();
    const v1::NodeReport after = controller_->WaitForHello(2 + restart).report();
    ASSERT_TRUE(AllIn(v1::TRAINER_EXITED)(after)) << after.DebugString();
    EXPECT_EQ(after.trainers(0).exit().signal(), SIGUSR2);
    EXPECT_EQ(after.trainers(0).exit().step(), 4);
    EXPECT_EQ(after.trainers(0).exit().phase(), v1::FORWARD);
    EXPECT_FALSE(RingExists(0));
    End(SIGKILL);
  }
}

TEST_F(DaemonTest, TrainerWithoutATraceIsLost) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(3));
  End(SIGKILL);
  const std::string dir = TrainerDir(0);
  ::kill(ReadTrainerLock(dir)->shim, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !ReadTrainerLock(dir)->alive; }));
  StartDaemon();
  EXPECT_EQ(controller_->WaitForHello(2).report().trainers(0).exit().failure(), v1::FAILURE_LOST);
}

TEST_F(DaemonTest, ControllerMayGoAndComeBack) {
  StartDaemon();
  v1::NodePlan plan = NodePlanOf({Plan(0, 1000000)});
  controller_->SetPlan(plan);
  const v1::NodeReport before = controller_->WaitForReport(AllBeyond(5));
  controller_.reset();
  WaitForLog("controller_unreachable");
  // Long enough for many attempts.
  const absl::Time until = absl::Now() + absl::Seconds(2);
  EXPECT_TRUE(Eventually([&] { return absl::Now() > until; }));
  controller_ = std::make_unique<FakeController>(controller_address_);
  controller_->SetPlan(plan);
  const v1::NodeReport after =
      controller_->WaitForReport(AllBeyond(before.trainers(0).progress().step() + 500));
  EXPECT_EQ(after.trainers(0).pid(), before.trainers(0).pid());
  WaitForLog("controller_back");
  EXPECT_EQ(Count(Contents(root_ + "/log"), "controller_unreachable"), 1);
  EXPECT_EQ(Count(Contents(root_ + "/log"), "controller_back"), 1);
  // Steps made in the meantime were kept.
  EXPECT_TRUE(Eventually([&] {
    const auto steps = controller_->Steps();
    return !steps.empty() && steps.back().step() - steps.front().step() > 500;
  }));
}

TEST_F(DaemonTest, NothingEndsBeforeAPlanSaysSo) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  End(SIGKILL);
  // A controller that has not decided yet sends no plan.
  controller_.reset();
  controller_ = std::make_unique<FakeController>(controller_address_);
  StartDaemon();
  const v1::NodeReport first = controller_->WaitForReport(AllBeyond(5));
  controller_->WaitForReport(AllBeyond(first.trainers(0).progress().step() + 200));
}

TEST_F(DaemonTest, PlanOfAnotherClusterIsRefused) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  controller_.reset();
  controller_ = std::make_unique<FakeController>(controller_address_, "cluster-2");
  controller_->SetPlan(NodePlanOf({}));
  EXPECT_EQ(controller_->WaitForHello(2).cluster_id(), FakeController::kCluster);
  WaitForLog("belongs to cluster cluster-1");
  EXPECT_EQ(Count(Contents(root_ + "/log"), "belongs to cluster cluster-1"), 1);
  EXPECT_TRUE(ReadTrainerLock(TrainerDir(0))->alive);
}

TEST_F(DaemonTest, CleanEndLeavesTrainersRunningAndNothingElse) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  EXPECT_EQ(End(SIGTERM), kExitOk);
  EXPECT_TRUE(ReadTrainerLock(TrainerDir(0))->alive);
  EXPECT_TRUE(RingExists(0));
  EXPECT_FALSE(fs::exists(root_ + "/run/daemon.sock"));
  EXPECT_FALSE(fs::exists(root_ + "/address"));
  StartDaemon();
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForHello(2);
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
  EXPECT_EQ(End(SIGTERM), kExitOk);
  EXPECT_FALSE(fs::exists(root_ + "/run"));
}

TEST_F(DaemonTest, StateInUseHasItsExitCode) {
  StartDaemon();
  controller_->WaitForHello();
  std::vector<std::string> arguments = Arguments();
  *std::find(arguments.begin(), arguments.end(), root_ + "/run") = root_ + "/run2";
  const auto [code, said] = RunToEnd(arguments);
  EXPECT_EQ(code, kExitStateInUse);
  EXPECT_EQ(Count(said, "\n"), 1) << said;
  EXPECT_THAT(said, HasSubstr(root_ + "/state"));
}

TEST_F(DaemonTest, AControllerOfAnEarlierTermIsRefused) {
  const auto is_welcome = [](const v1::NodeReport& report) { return report.number() > 1; };
  controller_->SetTerm(5);
  StartDaemon();
  controller_->WaitForReport(is_welcome);
  controller_.reset();
  controller_ = std::make_unique<FakeController>(controller_address_, FakeController::kCluster, 4);
  WaitForLog("it leads no more: its term is 4, another controller has 5");
  EXPECT_EQ(controller_->Reports(), 0);
  controller_->SetTerm(6);
  controller_->WaitForReport(is_welcome);
}

TEST_F(DaemonTest, StateThatCannotBeWrittenHasItsExitCode) {
  std::ofstream(root_ + "/state") << "a file";
  const auto [code, said] = RunToEnd(Arguments());
  EXPECT_EQ(code, kExitStateNotWritable);
  EXPECT_EQ(Count(said, "\n"), 1) << said;
}

TEST_F(DaemonTest, DamagedStateHasItsExitCode) {
  fs::create_directory(root_ + "/state");
  std::ofstream(root_ + "/state/node.json") << "{";
  EXPECT_EQ(RunToEnd(Arguments()).first, kExitStateDamaged);
  EXPECT_EQ(Contents(root_ + "/state/node.json"), "{");
}

TEST_F(DaemonTest, AddressInUseHasItsExitCode) {
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--listen", controller_address_});
  EXPECT_EQ(RunToEnd(arguments).first, kExitCannotListen);
}

}  // namespace
}  // namespace paceline
