// etcd is away for longer than the leases of nodes: nobody leads, all controllers say so, and a job
// whose ranks could have been given to another node keeps its trainers.
#include <gmock/gmock.h>
#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/exit_codes.h"
#include "tests/etcd/etcd_cluster.h"
#include "tests/faults/controller_group.h"
#include "tests/faults/recovering_job.h"
#include "tests/integration/process.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kLeaseSeconds = 6;

class EtcdOutageTest : public RecoveringJobTest {
 protected:
  void SetUp() override {
    TestNetwork network;
    network.controllers = controllers_.Addresses();
    network.leader = [this] { return controllers_.Address(controllers_.WaitForLeader()); };
    cluster_ = std::make_unique<TestCluster>(/*workers=*/1, /*slots=*/3, network);
  }

  // The cluster must end before its controllers.
  void TearDown() override { cluster_.reset(); }

  EtcdCluster etcd_;
  ControllerGroup controllers_{etcd_, 3, {absl::StrCat("--node-lease=", kLeaseSeconds)}};
};

TEST_F(EtcdOutageTest, AJobOnOneNodeKeepsItsTrainersForLongerThanALease) {
  v1::JobSpec spec = Spec(600);
  spec.set_stall_warning_s(kLeaseSeconds - 0.3);
  spec.set_hang_timeout_s(kLeaseSeconds - 0.2);
  spec.set_collective_timeout_s(kLeaseSeconds - 0.1);
  const v1::Job before = Start(spec);
  const int leader = controllers_.WaitForLeader();
  etcd_.Freeze();
  EXPECT_EQ(controllers_.WaitForEnd(leader), kExitDeposed);
  controllers_.Start(leader);
  // Nobody has granted a lease since the leader ended.
  const absl::Time run_out = absl::Now() + absl::Seconds(kLeaseSeconds + 3);
  EXPECT_TRUE(Eventually([&] { return absl::Now() > run_out; }));
  for (const v1::Rank& rank : before.ranks()) {
    EXPECT_EQ(::kill(static_cast<pid_t>(rank.pid()), 0), 0) << "rank " << rank.rank();
  }
  etcd_.Continue();

  cluster_->FollowLeader();
  cluster_->WaitForNodes(1);
  const v1::Job after = cluster_->WaitForSteps(id_, Step(before) + 20);
  EXPECT_EQ(after.generation(), before.generation());
  EXPECT_EQ(after.membership_changes_size(), 0);
  ASSERT_EQ(after.ranks_size(), before.ranks_size());
  for (int r = 0; r < after.ranks_size(); ++r) {
    EXPECT_EQ(after.ranks(r).pid(), before.ranks(r).pid()) << "rank " << r;
  }
  const std::string log = ReadFile(cluster_->WorkerFile(0, "log"));
  EXPECT_THAT(log, HasSubstr("lease_held_without_leader controllers=3 "));
  EXPECT_THAT(log, Not(HasSubstr("lease_run_out")));
  ExpectUndisturbedEnd();
  EXPECT_EQ(cluster_->Get(id_).generation(), before.generation());
  controllers_.ExpectOneLeaderAtATime();
}

}  // namespace
}  // namespace paceline
