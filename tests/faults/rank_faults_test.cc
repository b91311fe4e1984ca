// Ranks of a running job are killed and frozen: the others keep their processes, and no step is
// lost.
#include <gmock/gmock.h>
#include <signal.h>

#include <set>

#include "absl/time/clock.h"
#include "tests/faults/recovering_job.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

using RankFaultsTest = RecoveringJobTest;

std::set<int64_t> Pids(const v1::Job& job) {
  std::set<int64_t> pids;
  for (const v1::Rank& rank : job.ranks()) pids.insert(rank.pid());
  return pids;
}

TEST_F(RankFaultsTest, ASpareTakesThePlaceOfAKilledRank) {
  StartCluster(4);
  v1::JobSpec spec = Spec(150);
  spec.mutable_recovery()->set_spares(1);
  const v1::Job before = Start(spec, 1);
  Signal(before.ranks(1), SIGKILL);
  const v1::Job after = WaitForGenerationAfter(before.generation());
  EXPECT_EQ(after.ranks(1).pid(), before.spares(0).pid());
  EXPECT_EQ(after.ranks(0).pid(), before.ranks(0).pid());
  EXPECT_EQ(after.ranks(2).pid(), before.ranks(2).pid());
  // A busy machine may report the death only after the others' broken connections, which make them
  // rendezvous once before.
  const v1::MembershipChange& last = *after.membership_changes().rbegin();
  EXPECT_THAT(last.reason(), HasSubstr("SIGKILL")) << after.DebugString();
  EXPECT_GE(last.step(), before.progress().step());
  for (const v1::MembershipChange& change : after.membership_changes()) {
    if (&change == &last) break;
    EXPECT_THAT(change.reason(), HasSubstr("the members rendezvous again")) << after.DebugString();
  }
  ExpectUndisturbedEnd();
}

TEST_F(RankFaultsTest, ANewTrainerTakesThePlaceOfAKilledRank) {
  StartCluster(3);
  const v1::Job before = Start(Spec(150));
  Signal(before.ranks(0), SIGKILL);  // Whose store they all use.
  const v1::Job after = WaitForGenerationAfter(before.generation());
  EXPECT_NE(after.ranks(0).pid(), before.ranks(0).pid());
  EXPECT_EQ(after.ranks(1).pid(), before.ranks(1).pid());
  ExpectUndisturbedEnd();
}

TEST_F(RankFaultsTest, TwoAtOnceAreReplacedTogether) {
  StartCluster(4);
  const v1::Job before = Start(Spec(200));
  Signal(before.ranks(0), SIGKILL);
  Signal(before.ranks(2), SIGKILL);
  const v1::Job after = WaitForGenerationAfter(before.generation());
  EXPECT_EQ(after.ranks(1).pid(), before.ranks(1).pid());
  ExpectUndisturbedEnd();
}

TEST_F(RankFaultsTest, AnotherOneDiesWhileTheyRecover) {
  StartCluster(4);
  const v1::Job before = Start(Spec(200));
  Signal(before.ranks(1), SIGKILL);
  const v1::Job meanwhile = cluster_->WaitUntil(
      id_, [&](const v1::Job& job) { return job.generation() > before.generation(); });
  Signal(meanwhile.ranks(2), SIGKILL);
  WaitForGenerationAfter(meanwhile.generation());
  ExpectUndisturbedEnd();
}

TEST_F(RankFaultsTest, ASpareThatDiesInItsStartIsReplaced) {
  StartCluster(5);
  v1::JobSpec spec = Spec(200);
  spec.mutable_recovery()->set_spares(1);
  spec_ = spec;
  id_ = cluster_->Submit(spec).id();
  const v1::Job starting = cluster_->WaitUntil(
      id_, [](const v1::Job& job) { return job.spares_size() == 1 && job.spares(0).pid() > 0; });
  Signal(starting.spares(0), SIGKILL);
  const v1::Job before = cluster_->WaitUntil(id_, [&](const v1::Job& job) {
    return job.state() == v1::RUNNING && job.progress().step() > 3 && job.spares_size() == 1 &&
           job.spares(0).state() == v1::TRAINER_READY &&
           job.spares(0).pid() != starting.spares(0).pid();
  });
  Signal(before.ranks(2), SIGKILL);
  EXPECT_EQ(WaitForGenerationAfter(before.generation()).ranks(2).pid(), before.spares(0).pid());
  ExpectUndisturbedEnd();
}

TEST_F(RankFaultsTest, AFrozenRankIsFoundAndReplaced) {
  StartCluster(4);
  v1::JobSpec spec = Spec(200);
  spec.mutable_recovery()->set_spares(1);
  spec.set_stall_warning_s(0.5);
  spec.set_hang_timeout_s(1);
  spec.set_collective_timeout_s(20);
  const v1::Job before = Start(spec, 1);
  Signal(before.ranks(1), SIGSTOP);
  const v1::Job after = WaitForGenerationAfter(before.generation());
  EXPECT_EQ(after.ranks(1).pid(), before.spares(0).pid());
  EXPECT_EQ(after.ranks(0).pid(), before.ranks(0).pid());
  ASSERT_GE(after.membership_changes_size(), 1);
  EXPECT_THAT(after.membership_changes(0).reason(), HasSubstr("rank 1"));
  EXPECT_TRUE(Eventually([&] { return ::kill(static_cast<pid_t>(before.ranks(1).pid()), 0) != 0; }))
      << "the frozen process is left";
  ExpectUndisturbedEnd();
}

TEST_F(RankFaultsTest, WithoutASlotTheJobShrinksAndGrowsAgain) {
  StartCluster(3);
  v1::JobSpec spec = Spec(500);  // It grows no sooner than 10 s after it has shrunk.
  spec.mutable_recovery()->set_min_ranks(2);
  spec.mutable_recovery()->set_batch(v1::KEEP_RANK_BATCH);
  const v1::Job before = Start(spec);
  const int lost = WorkerOf(before.ranks(1));
  cluster_->KillWorker(lost);
  Signal(before.ranks(1), SIGKILL);
  const v1::Job small = cluster_->WaitUntil(
      id_, [&](const v1::Job& job) { return job.state() == v1::RUNNING && job.ranks_size() == 2; });
  EXPECT_EQ(Pids(small), (std::set<int64_t>{before.ranks(0).pid(), before.ranks(2).pid()}));
  cluster_->StartWorker(lost);
  WaitForGenerationAfter(small.generation());
  cluster_->Release();
  const v1::Job end = cluster_->WaitForEnd(id_);
  EXPECT_EQ(end.state(), v1::SUCCEEDED) << end.reason();
  EXPECT_EQ(end.restarts(), 0);
}

TEST_F(RankFaultsTest, ARankThatFailsAgainAtTheSameStepIsNotReplacedForEver) {
  StartCluster(3);
  v1::JobSpec spec = Spec(50);
  spec.set_allow_chaos(true);
  v1::Fault* fault = spec.add_chaos();
  fault->set_rank(1);
  fault->set_step(10);
  fault->set_kind(v1::ABORT);
  id_ = cluster_->Submit(spec).id();
  const v1::Job end = cluster_->WaitForEnd(id_);
  EXPECT_EQ(end.state(), v1::FAILED);
  EXPECT_THAT(end.reason(), HasSubstr("step 10"));
  EXPECT_LE(end.generation(), 3);
}

}  // namespace
}  // namespace paceline
