// Elections over a real etcd.
#include "controller/election/election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/store/etcd_store.h"
#include "tests/etcd/etcd_cluster.h"
#include "tests/etcd/tcp_proxy.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

// One controller that takes part in an election.
class Candidate {
 public:
  // `on_elected` is called on the election's thread.
  Candidate(
      const std::string& name, std::vector<std::string> endpoints,
      std::function<void()> on_elected = [] {})
      : client_(EtcdClient::Create({std::move(endpoints), ""}).value()),
        election_(std::make_unique<Election>(client_.get(),
                                             Election::Options{Prefix(), name, absl::Seconds(2)},
                                             Election::Observer{[this](const std::string& leader) {
                                                                  absl::MutexLock lock(&mutex_);
                                                                  leader_ = leader;
                                                                },
                                                                [this, on_elected](int64_t term) {
                                                                  on_elected();
                                                                  absl::MutexLock lock(&mutex_);
                                                                  term_ = term;
                                                                },
                                                                [this](const std::string& why) {
                                                                  absl::MutexLock lock(&mutex_);
                                                                  why_ = why;
                                                                }})) {}

  static std::string Prefix() {
    return absl::StrCat("/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  int64_t WaitForTerm() {
    WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return term_ > 0; }, "no election");
    absl::MutexLock lock(&mutex_);
    return term_;
  }
  void WaitForLeader(const std::string& leader) {
    WaitUntil([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return leader_ == leader; }, "no leader");
  }
  std::string WaitForEnd() {
    WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !why_.empty(); }, "not deposed");
    absl::MutexLock lock(&mutex_);
    return why_;
  }
  bool MayAct() const { return election_->MayAct(); }
  void StandBack() { election_.reset(); }

 private:
  template <typename Holds>
  void WaitUntil(Holds holds, const char* otherwise) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&holds), kPatience)) << otherwise;
  }

  absl::Mutex mutex_;
  std::string leader_ ABSL_GUARDED_BY(mutex_);
  std::string why_ ABSL_GUARDED_BY(mutex_);
  int64_t term_ ABSL_GUARDED_BY(mutex_) = 0;
  const std::unique_ptr<EtcdClient> client_;
  std::unique_ptr<Election> election_;  // Last: its thread uses the others.
};

TEST(ElectionTest, OneLeadsAndTheOtherFollowsUntilItStandsBack) {
  const EtcdCluster etcd;
  Candidate first("a:1", etcd.endpoints());
  const int64_t term = first.WaitForTerm();
  EXPECT_TRUE(first.MayAct());
  Candidate second("b:1", etcd.endpoints());
  second.WaitForLeader("a:1");
  EXPECT_FALSE(second.MayAct());
  first.StandBack();
  EXPECT_GT(second.WaitForTerm(), term);
}

TEST(ElectionTest, ALeaderThatIsCutOffActsNoMoreWhenTheNextIsElected) {
  const EtcdCluster etcd;
  TcpProxy wire(etcd.endpoints()[0]);
  Candidate first("a:1", {wire.address()});
  first.WaitForTerm();
  bool first_acts = true;
  Candidate second("b:1", etcd.endpoints(), [&] { first_acts = first.MayAct(); });
  second.WaitForLeader("a:1");
  wire.Cut();
  second.WaitForTerm();
  EXPECT_FALSE(first_acts);
  EXPECT_THAT(first.WaitForEnd(), HasSubstr("not renewed in time"));
  wire.Mend();
}

TEST(ElectionTest, ALeaseThatEtcdHasEndedEndsTheTerm) {
  const EtcdCluster etcd;
  Candidate leader("a:1", etcd.endpoints());
  leader.WaitForTerm();
  const auto client = etcd.Client();
  etcdserverpb::RangeRequest request;
  request.set_key(EtcdLeaderKey(Candidate::Prefix()));
  const int64_t lease = client->Range(request, {}).value().kvs(0).lease();
  ASSERT_TRUE(client->RevokeLease(lease, {}).ok());
  EXPECT_THAT(leader.WaitForEnd(), HasSubstr("etcd has ended its lease"));
  EXPECT_FALSE(leader.MayAct());
}

TEST(ElectionTest, SlowAnswersEndNoTerm) {
  const EtcdCluster etcd;
  TcpProxy wire(etcd.endpoints()[0]);
  Candidate leader("a:1", {wire.address()});
  leader.WaitForTerm();
  wire.Delay(absl::Milliseconds(50));
  // This is longer than the lease, so it was renewed over the slow link.
  const absl::Time until = absl::Now() + absl::Seconds(4);
  EXPECT_TRUE(Eventually([&] { return absl::Now() > until || !leader.MayAct(); }));
  EXPECT_TRUE(leader.MayAct());
}

TEST(ElectionTest, AStandbyWaitsForAnEtcdThatIsAway) {
  EtcdCluster etcd;
  etcd.Kill(0);
  Candidate leader("a:1", etcd.endpoints());
  etcd.Start(0);
  EXPECT_GT(leader.WaitForTerm(), 0);
}

TEST(ElectionTest, AStandbyEndsAlthoughEtcdIsAway) {
  EtcdCluster etcd;
  etcd.Freeze();
  { Candidate standby("a:1", etcd.endpoints()); }
  etcd.Continue();
}

}  // namespace
}  // namespace paceline
