#include "worker/daemon/certificate_keeper.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(CertificateKeeperTest, RenewsAfterTwoThirdsOfTheLife) {
  EXPECT_EQ(NextRenewal(absl::Hours(24)), absl::Hours(16));
  EXPECT_EQ(NextRenewal(absl::Seconds(9)), absl::Seconds(6));
}

TEST(CertificateKeeperTest, FirstRenewalIsSoonAndSpreadOverTheNodes) {
  EXPECT_EQ(FirstRenewal(absl::Hours(24), 0.0), absl::ZeroDuration());
  EXPECT_EQ(FirstRenewal(absl::Hours(24), 1.0), absl::Minutes(1));
  EXPECT_EQ(FirstRenewal(absl::Seconds(10), 1.0), absl::Seconds(1));
}

// From two thirds on there is time for more than one.
TEST(CertificateKeeperTest, FailedRenewalIsTriedOftenEnough) {
  EXPECT_EQ(RenewalRetry(absl::Hours(24)), absl::Minutes(10));
  EXPECT_EQ(RenewalRetry(absl::Seconds(10)), absl::Seconds(1));
  EXPECT_LT(NextRenewal(absl::Hours(1)) + 10 * RenewalRetry(absl::Hours(1)), absl::Hours(1));
}

}  // namespace
}  // namespace paceline
