#include "controller/core/leader_lease.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(LeaderLeaseTest, EndsBeforeTheLeaseCountedFromTheSending) {
  LeaderLease lease(At(10), absl::Seconds(3));
  EXPECT_TRUE(lease.MayAct(At(10)));
  EXPECT_TRUE(lease.MayAct(At(12.69)));
  EXPECT_FALSE(lease.MayAct(At(12.71)));
}

TEST(LeaderLeaseTest, ARenewalCountsFromItsOwnSending) {
  LeaderLease lease(At(10), absl::Seconds(3));
  lease.Renewed(At(11), absl::Seconds(3));
  EXPECT_TRUE(lease.MayAct(At(13.69)));
  EXPECT_FALSE(lease.MayAct(At(13.71)));
}

TEST(LeaderLeaseTest, AnAnswerToAnEarlierRenewalChangesNothing) {
  LeaderLease lease(At(10), absl::Seconds(3));
  lease.Renewed(At(11), absl::Seconds(3));
  lease.Renewed(At(10.5), absl::Seconds(30));
  EXPECT_FALSE(lease.MayAct(At(13.71)));
}

TEST(LeaderLeaseTest, TwoRenewalsMayFail) {
  const LeaderLease lease(At(10), absl::Seconds(3));
  EXPECT_EQ(lease.NextRenewal(), At(11));
  EXPECT_TRUE(lease.MayAct(lease.NextRenewal() + 2 * lease.Attempt()));
}

}  // namespace
}  // namespace paceline
