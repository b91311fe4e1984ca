// Daemons and the controller are killed and frozen around the loss of a rank.
#include <gmock/gmock.h>
#include <signal.h>

#include "absl/time/clock.h"
#include "tests/faults/recovering_job.h"

namespace paceline {
namespace {

using DaemonFaultsTest = RecoveringJobTest;

TEST_F(DaemonFaultsTest, AControllerThatDiesInTheRecoveryFinishesItLater) {
  StartCluster(4);
  v1::JobSpec spec = Spec(250);
  spec.mutable_recovery()->set_spares(1);
  v1::Job before = Start(spec, 1);
  // Each delay hits a different moment of the recovery.
  for (const absl::Duration delay :
       {absl::ZeroDuration(), absl::Milliseconds(10), absl::Milliseconds(40)}) {
    Signal(before.ranks(1), SIGKILL);
    absl::SleepFor(delay);
    cluster_->KillController();
    cluster_->StartController();
    before = WaitForGenerationAfter(before.generation());
  }
  ExpectUndisturbedEnd();
}

TEST_F(DaemonFaultsTest, AControllerThatIsFrozenReplacesTheRankLater) {
  StartCluster(4);
  v1::JobSpec spec = Spec(150);
  spec.mutable_recovery()->set_spares(1);
  const v1::Job before = Start(spec, 1);
  ASSERT_EQ(::kill(cluster_->ControllerPid(), SIGSTOP), 0);
  Signal(before.ranks(1), SIGKILL);
  absl::SleepFor(absl::Seconds(2));
  ASSERT_EQ(::kill(cluster_->ControllerPid(), SIGCONT), 0);
  const v1::Job after = WaitForGenerationAfter(before.generation());
  EXPECT_EQ(after.ranks(0).pid(), before.ranks(0).pid());
  ExpectUndisturbedEnd();
}

TEST_F(DaemonFaultsTest, ADaemonThatDiesTakesNoRankWithIt) {
  StartCluster(3);
  const v1::Job before = Start(Spec(100));
  cluster_->KillWorker(WorkerOf(before.ranks(1)));
  absl::SleepFor(absl::Milliseconds(300));
  cluster_->StartWorker(WorkerOf(before.ranks(1)));
  ExpectUndisturbedEnd();
  EXPECT_EQ(cluster_->Get(id_).generation(), before.generation());
}

TEST_F(DaemonFaultsTest, ANodeThatIsGoneWithItsRankIsReplaced) {
  StartCluster(4);
  v1::JobSpec spec = Spec(250);
  spec.mutable_recovery()->set_spares(1);
  const v1::Job before = Start(spec, 1);
  const int gone = WorkerOf(before.ranks(1));
  cluster_->KillWorker(gone);
  Signal(before.ranks(1), SIGKILL);
  const v1::Job after = WaitForGenerationAfter(before.generation());
  EXPECT_EQ(after.ranks(1).pid(), before.spares(0).pid());
  cluster_->StartWorker(gone);
  ExpectUndisturbedEnd();
}

TEST_F(DaemonFaultsTest, AFrozenDaemonDoesNotDisturbItsRank) {
  StartCluster(3);
  const v1::Job before = Start(Spec(150));
  const pid_t daemon = cluster_->WorkerPid(WorkerOf(before.ranks(2)));
  ASSERT_EQ(::kill(daemon, SIGSTOP), 0);
  absl::SleepFor(absl::Seconds(2));
  ASSERT_EQ(::kill(daemon, SIGCONT), 0);
  ExpectUndisturbedEnd();
  EXPECT_EQ(cluster_->Get(id_).generation(), before.generation());
}

}  // namespace
}  // namespace paceline
