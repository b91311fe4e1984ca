// Nodes are drained with `paceline` while a job trains on them.
#include <gmock/gmock.h>
#include <signal.h>

#include <thread>

#include "tests/faults/recovering_job.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using DrainTest = RecoveringJobTest;

TEST_F(DrainTest, TheJobTrainsOnWhileANodeIsEmptiedAndChecked) {
  StartCluster(4);
  const v1::Job before = Start(Spec(300));
  const std::string node = before.ranks(1).node();
  const std::vector<std::string> drain = {"node",     "drain",          node, "--owner", "ann",
                                          "--reason", "its fan is loud"};

  std::vector<std::string> ask = drain;
  ask.push_back("--dry-run");
  EXPECT_THAT(Paceline(ask).output, AllOf(HasSubstr("rank 1 moves to a new trainer on w"),
                                          HasSubstr("nothing was done")));
  EXPECT_EQ(cluster_->Get(id_).generation(), before.generation());

  const Finished drained = Paceline(drain);
  EXPECT_EQ(drained.exit_code, 0) << drained.output;
  EXPECT_THAT(drained.output, AllOf(HasSubstr("rank 1 moves to a new trainer on w"),
                                    HasSubstr(node + " DRAINED: drained (swap) by ann")));
  EXPECT_THAT(TrainersOn(node), IsEmpty());
  const v1::Job after = cluster_->Get(id_);
  EXPECT_EQ(after.state(), v1::RUNNING);
  EXPECT_NE(after.ranks(1).node(), node);
  EXPECT_EQ(after.ranks(0).pid(), before.ranks(0).pid());
  EXPECT_EQ(after.ranks(2).pid(), before.ranks(2).pid());
  ASSERT_EQ(after.membership_changes_size(), 1);
  EXPECT_TRUE(after.membership_changes(0).planned());

  EXPECT_THAT(Paceline({"node", "check", node}).output,
              AllOf(HasSubstr("pair_bandwidth to w"), HasSubstr("disk_write")));
  EXPECT_EQ(Paceline({"node", "resume", node, "--owner", "ann"}).exit_code, 0);
  EXPECT_THAT(Paceline({"node", "history", node}).output,
              AllOf(HasSubstr("drain (swap, deadline in 1h): its fan is loud"),
                    HasSubstr("nothing runs there any more"), HasSubstr("resume")));
  ExpectUndisturbedEnd();
}

TEST_F(DrainTest, WhoeverDiesInAHotSwapTheNodeIsEmptied) {
  StartCluster(4);
  v1::Job before = Start(Spec(600));
  for (const char* victim : {"newcomer", "leaver", "other"}) {
    SCOPED_TRACE(victim);
    const std::string node = before.ranks(1).node();
    Finished drained;
    std::thread ann([&] {
      drained = Paceline({"node", "drain", node, "--owner", "ann", "--reason", "its fan is loud"});
    });
    const v1::Job swapping = cluster_->WaitUntil(
        id_, [](const v1::Job& job) { return job.spares_size() > 0 && job.spares(0).pid() > 0; });
    const std::string who = victim;
    Signal(who == "newcomer" ? swapping.spares(0) : swapping.ranks(who == "leaver" ? 1 : 2),
           SIGKILL);
    ann.join();
    EXPECT_EQ(drained.exit_code, 0) << drained.output;
    EXPECT_THAT(TrainersOn(node), IsEmpty());
    before = WaitForGenerationAfter(before.generation());
    EXPECT_EQ(Paceline({"node", "resume", node, "--owner", "ann"}).exit_code, 0);
  }
  ExpectUndisturbedEnd();
}

TEST_F(DrainTest, NowEndsTheRanksAndIsNoFailure) {
  StartCluster(4);
  v1::JobSpec spec = Spec(200);
  spec.mutable_recovery()->set_max_failures(1);
  v1::Job job = Start(spec);
  for (int i = 0; i < 2; ++i) {
    const std::string node = job.ranks(1).node();
    const Finished drained = Paceline(
        {"node", "drain", node, "--mode", "now", "--owner", "ann", "--reason", "it smokes"});
    EXPECT_EQ(drained.exit_code, 0) << drained.output;
    EXPECT_THAT(drained.output, HasSubstr("rank 1 ends at once"));
    EXPECT_THAT(TrainersOn(node), IsEmpty());
    job = WaitForGenerationAfter(job.generation());
    EXPECT_EQ(Paceline({"node", "resume", node, "--owner", "ann"}).exit_code, 0);
  }
  ExpectUndisturbedEnd();
}

}  // namespace
}  // namespace paceline
