#include "controller/core/tenure.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(TenureTest, EndsBeforeTheLeaseCountedFromTheSending) {
  Tenure tenure(At(10), absl::Seconds(3));
  EXPECT_TRUE(tenure.MayAct(At(10)));
  EXPECT_TRUE(tenure.MayAct(At(12.69)));
  EXPECT_FALSE(tenure.MayAct(At(12.71)));
}

TEST(TenureTest, ARenewalCountsFromItsOwnSending) {
  Tenure tenure(At(10), absl::Seconds(3));
  tenure.Renewed(At(11), absl::Seconds(3));
  EXPECT_TRUE(tenure.MayAct(At(13.69)));
  EXPECT_FALSE(tenure.MayAct(At(13.71)));
}

TEST(TenureTest, AnAnswerToAnEarlierRenewalChangesNothing) {
  Tenure tenure(At(10), absl::Seconds(3));
  tenure.Renewed(At(11), absl::Seconds(3));
  tenure.Renewed(At(10.5), absl::Seconds(30));
  EXPECT_FALSE(tenure.MayAct(At(13.71)));
}

TEST(TenureTest, TwoRenewalsMayFail) {
  const Tenure tenure(At(10), absl::Seconds(3));
  EXPECT_EQ(tenure.NextRenewal(), At(11));
  EXPECT_TRUE(tenure.MayAct(tenure.NextRenewal() + 2 * tenure.Attempt()));
}

}  // namespace
}  // namespace paceline
