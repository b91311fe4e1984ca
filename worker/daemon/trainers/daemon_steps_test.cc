// What happens to trainers' step records when connections are lost: each record arrives or is
// reported as dropped.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "worker/daemon/testing/daemon_test.h"

namespace paceline {
namespace {

class StepsTest : public DaemonTest {
 protected:
  // Number of records that the current controller has received.
  int64_t Received() const { return static_cast<int64_t>(controller_->Steps().size()); }

  // Waits for `count` more reports.
  void AwaitReports(int count) {
    const int wanted = controller_->Reports() + count;
    EXPECT_TRUE(Eventually([&] { return controller_->Reports() >= wanted; }));
  }

  // Ends the controller. Returns how many records it had received.
  int64_t EndController() {
    controller_->Stop();
    const int64_t received = Received();
    controller_.reset();
    return received;
  }
  // Starts another controller, a standby, at the same address.
  void BeginController() {
    controller_ = std::make_unique<FakeController>(controller_address_, FakeController::kCluster,
                                                   /*term=*/0, NotLeader(""));
  }
  void Lead() { controller_->Refuse(std::nullopt); }
};

TEST_F(StepsTest, WhatIsAnsweredIsNotLostWithAConnectionAlsoWithoutLeases) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 200)}));
  EXPECT_TRUE(Eventually([&] { return Received() == 200; }));
  AwaitReports(3);
  EndController();
  BeginController();
  Lead();
  AwaitReports(3);
  EXPECT_EQ(controller_->Dropped(), 0);
}

// The controller receives all messages but answers none. To the worker they may be lost, along with
// its count of records lost before.
TEST_F(StepsTest, ARecordThatMayBeLostIsToldAsDroppedOnceHoweverOftenAConnectionIsCut) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  controller_->StopAnswers();
  int64_t unanswered = -Received();
  int64_t made = 0;
  for (int cut = 1; cut <= 3; ++cut) {
    AwaitReports(3);
    if (cut == 3) {
      v1::TrainerPlan stopped = Plan(0, 1000000);
      stopped.mutable_stop()->set_grace_s(30);
      made = RunOne(stopped).progress().step();
    }
    unanswered += EndController();
    BeginController();
    if (cut < 3) controller_->StopAnswers();
    Lead();
  }
  EXPECT_TRUE(Eventually([&] { return controller_->Dropped() >= unanswered; }))
      << "also by a node that makes no steps any more: " << controller_->Dropped() << " of "
      << unanswered;
  EXPECT_LE(controller_->Dropped(), made);
}

TEST_F(StepsTest, AHelloTellsWhichDroppedRecordsAControllerKnowsOf) {
  controller_->StopAnswers();
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 100)}));
  EXPECT_TRUE(Eventually([&] { return Received() == 100; }));
  const v1::Hello first = controller_->WaitForHello();
  EXPECT_EQ(first.dropped_confirmed(), 0);
  EndController();
  BeginController();
  Lead();
  EXPECT_TRUE(Eventually([&] { return controller_->Dropped() == 100; }));
  EXPECT_EQ(controller_->WaitForHello().dropped_confirmed(), 0);
  AwaitReports(3);
  EndController();
  BeginController();
  Lead();
  const v1::Hello third = controller_->WaitForHello();
  EXPECT_EQ(third.dropped_confirmed(), 100);
  EXPECT_EQ(third.daemon_uid(), first.daemon_uid());
  End(SIGKILL);
  StartDaemon();
  const v1::Hello later = controller_->WaitForHello(2);
  EXPECT_EQ(later.dropped_confirmed(), 0);
  EXPECT_NE(later.daemon_uid(), first.daemon_uid());
}

TEST_F(StepsTest, LastStepsOfATrainerAreSentAlsoWhenTheFirstPlanAfterAnOutageLacksIt) {
  constexpr int64_t kSteps = 300;
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, kSteps);
  plan.clear_store_address();  // The trainer waits.
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllIn(v1::TRAINER_READY));
  plan.set_store_address("127.0.0.1:5000");
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.plan_revision() == 2; });
  const int64_t early = EndController();
  WaitForLog("trainer_ended");
  BeginController();
  controller_->SetPlan(NodePlanOf({}));
  Lead();
  const auto accounted = [&] { return Received() + controller_->Dropped(); };
  EXPECT_TRUE(Eventually([&] { return early + accounted() >= kSteps; }))
      << early << " early, " << Received() << " late, " << controller_->Dropped() << " dropped";
  EXPECT_LE(accounted(), kSteps) << "each counts once";
}

}  // namespace
}  // namespace paceline
