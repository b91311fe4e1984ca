// What happens to a daemon's trainers when the controller is unreachable for longer than the lease.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/daemon/testing/daemon_test.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(1);
// The daemon asks two controllers in turn, every half second.
constexpr absl::Duration kOutageLease = absl::Seconds(3);

// A trainer of a two-rank job; the other rank is on another node.
v1::TrainerPlan Leased(int rank) {
  v1::TrainerPlan plan = Plan(rank, 1000000);
  plan.mutable_membership()->set_generation(1);
  plan.mutable_membership()->set_rank(rank);
  plan.mutable_membership()->set_world_size(2);
  plan.set_leased(true);
  return plan;
}

class LeaseTest : public DaemonTest {
 protected:
  LeaseTest() { controller_->SetLease(kLease); }

  // Waits until all trainers of the plan train and some reports were answered.
  v1::NodeReport Train(const std::vector<v1::TrainerPlan>& trainers) {
    StartDaemon();
    controller_->SetPlan(NodePlanOf(trainers));
    controller_->WaitForReport(AllBeyond(5));
    const int reports = controller_->Reports();
    EXPECT_TRUE(Eventually([&] { return controller_->Reports() > reports + 3; }));
    return controller_->WaitForReport(AllBeyond(5));
  }

  pid_t Shim(int rank) const { return ReadTrainerLock(TrainerDir(rank))->shim; }
};

bool Lost(const v1::TrainerReport& trainer) { return trainer.exit().failure() == v1::FAILURE_LOST; }

TEST_F(LeaseTest, JobWhollyOnTheNodeEndsWhenTheControllerIsUnreachable) {
  v1::TrainerPlan free = Leased(0);
  free.mutable_id()->set_job_id("job-aaaaaaaaaaaa");
  free.set_leased(false);
  Train({Leased(0), Leased(1), free});
  controller_->StopAnswers();
  const absl::Time silent = absl::Now();
  const v1::NodeReport report = controller_->WaitForReport(
      [](const v1::NodeReport& r) { return Lost(r.trainers(0)) && Lost(r.trainers(1)); });
  EXPECT_GT(absl::Now() - silent, kLease / 2);
  EXPECT_THAT(report.trainers(0).exit().message(), HasSubstr("all ranks of its job"));
  EXPECT_EQ(report.trainers(0).exit().signal(), SIGKILL);
  EXPECT_EQ(report.trainers(2).state(), v1::TRAINER_RUNNING);
}

TEST_F(LeaseTest, OnlyRanksThatMakeNoStepEndWhereAJobHasOtherNodes) {
  v1::TrainerPlan other = Leased(1);
  other.mutable_id()->set_job_id("job-aaaaaaaaaaaa");
  const v1::NodeReport running = Train({Leased(0), other});
  controller_->StopAnswers();
  // Rank 0 of kJob comes first in the report.
  ::kill(static_cast<pid_t>(running.trainers(0).pid()), SIGSTOP);
  const v1::NodeReport report =
      controller_->WaitForReport([](const v1::NodeReport& r) { return Lost(r.trainers(0)); });
  EXPECT_THAT(report.trainers(0).exit().message(), HasSubstr("no step"));
  const int64_t step = report.trainers(1).progress().step();
  controller_->WaitForReport(
      [&](const v1::NodeReport& r) { return r.trainers(1).progress().step() > step + 300; });
}

TEST_F(LeaseTest, NothingEndsWithoutALeaseThatWasGranted) {
  controller_->StopAnswers();
  const v1::NodeReport running = Train({Leased(0), Leased(1)});
  const int64_t step = running.trainers(0).progress().step();
  controller_->WaitForReport([&](const v1::NodeReport& r) {
    return r.trainers(0).progress().step() > step + 1500;  // Longer than a lease.
  });
}

TEST_F(LeaseTest, NodeThatWakesUpAfterItsLeaseEndsItsTrainersFirst) {
  const v1::NodeReport running = Train({Leased(0)});
  const auto trainer = static_cast<pid_t>(running.trainers(0).pid());
  for (const pid_t process : {daemon_, Shim(0), trainer}) ::kill(process, SIGSTOP);
  const auto stopped = ReadTrainerLock(TrainerDir(0));
  // The daemon gets a new membership when it wakes up; its trainer, by then replaced, must not.
  v1::TrainerPlan next = Leased(0);
  next.mutable_membership()->set_generation(2);
  controller_->SetPlan(NodePlanOf({next}));
  const absl::Time until = absl::Now() + 2 * kLease;
  EXPECT_TRUE(Eventually([&] { return absl::Now() > until; }));
  ::kill(daemon_, SIGCONT);  // Not the shim or trainer: the daemon wakes those.
  const v1::NodeReport report =
      controller_->WaitForReport([](const v1::NodeReport& r) { return Lost(r.trainers(0)); });
  EXPECT_EQ(report.trainers(0).membership().generation(), 1);
  EXPECT_TRUE(stopped->alive);
}

// Two controllers: one leads at first, then neither does.
class OutageTest : public LeaseTest {
 protected:
  OutageTest() {
    controller_->SetLease(kOutageLease);
    controller_address_ = absl::StrCat(controller_->address(), ",", standby_.address());
  }

  // Ends the leader and starts a standby at its address.
  void Depose() {
    const std::string address = controller_->address();
    controller_.reset();
    controller_ = std::make_unique<FakeController>(address, FakeController::kCluster, /*term=*/0,
                                                   NotLeader(""));
  }
  size_t Logged(const std::string& word) const { return Count(Contents(root_ + "/log"), word); }

  FakeController standby_{"127.0.0.1:0", FakeController::kCluster, /*term=*/0, NotLeader("")};
};

TEST_F(OutageTest, JobWhollyOnTheNodeLivesOnWhileAllControllersStandBy) {
  const v1::NodeReport before = Train({Leased(0), Leased(1)});
  Depose();
  const absl::Time until = absl::Now() + 2 * kOutageLease;
  EXPECT_TRUE(Eventually([&] { return absl::Now() > until; }));
  // Also with a restarted daemon that has heard of no leader.
  End(SIGKILL);
  StartDaemon();
  const absl::Time longer = absl::Now() + 2 * kOutageLease;
  EXPECT_TRUE(Eventually([&] { return absl::Now() > longer; }));
  EXPECT_EQ(Logged("lease_held_without_leader controllers=2"), 2) << "once by each daemon";
  controller_->SetLease(kOutageLease);
  controller_->Refuse(std::nullopt);
  const v1::NodeReport after = controller_->WaitForReport(AllBeyond(5));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(after.trainers(rank).pid(), before.trainers(rank).pid()) << "rank " << rank;
  }
  EXPECT_EQ(Logged("lease_run_out"), 0);
}

TEST_F(OutageTest, AControllerThatDoesNotAnswerMayLead) {
  Train({Leased(0), Leased(1)});
  const std::string silent = controller_->address();
  controller_.reset();
  WaitForLog("trainer_fenced", 2);
  EXPECT_EQ(Logged("lease_held_without_leader"), 0);
  EXPECT_EQ(Logged(absl::StrCat("may_lead=", silent, " ")), 1);
}

TEST_F(OutageTest, ALeaseThatHasRunOutIsNotHeldOn) {
  Train({Leased(0), Leased(1)});
  controller_->StopAnswers();
  WaitForLog("trainer_fenced", 2);
  Depose();
  const absl::Time until = absl::Now() + kOutageLease;
  EXPECT_TRUE(Eventually([&] { return absl::Now() > until; }));
  EXPECT_EQ(Logged("lease_held_without_leader"), 0);
  EXPECT_EQ(Logged("lease_held_again"), 0);
}

TEST_F(OutageTest, ALeaderThatIsNotListedMayNotBeTheOnlyOne) {
  Train({Leased(0), Leased(1)});
  standby_.Refuse(NotLeader("127.0.0.1:1"));
  Depose();
  WaitForLog("leader_not_listed address=127.0.0.1:1 ");
  standby_.Refuse(NotLeader(""));
  WaitForLog("trainer_fenced", 2);
  EXPECT_EQ(Logged("leader_not_listed"), 1);
  EXPECT_EQ(Logged("lease_held_without_leader"), 0);
}

TEST_F(LeaseTest, LaterDaemonKnowsTheLease) {
  Train({Leased(0), Leased(1)});
  controller_.reset();
  End(SIGKILL);
  StartDaemon();
  WaitForLog("trainer_fenced", 2);
  EXPECT_TRUE(Eventually([&] { return !ReadTrainerLock(TrainerDir(0))->alive; }));
  // The reason survives a restart of the daemon.
  End(SIGKILL);
  controller_ = std::make_unique<FakeController>(controller_address_);
  StartDaemon();
  const v1::NodeReport report = controller_->WaitForHello().report();
  EXPECT_TRUE(AllIn(v1::TRAINER_EXITED)(report));
  EXPECT_TRUE(Lost(report.trainers(0))) << report.DebugString();
}

}  // namespace
}  // namespace paceline
