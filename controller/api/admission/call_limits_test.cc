#include "controller/api/admission/call_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/metrics/metric_families.h"
#include "controller/metrics/rpc_metrics.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

google::rpc::ErrorInfo InfoOf(const grpc::Status& status) {
  google::rpc::Status whole;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(whole.ParseFromString(status.error_details()));
  EXPECT_TRUE(whole.details_size() == 1 && whole.details(0).UnpackTo(&info));
  return info;
}

class CallRateTest : public ::testing::Test {
 protected:
  static CallLimitOptions Rate(double calls_per_s, double burst) {
    CallLimitOptions options;
    options.calls_per_s = calls_per_s;
    options.call_burst = burst;
    return options;
  }

  const Principal ann_{Role::kOperator, "ann"};
  MetricRegistry registry_{ControllerFamilies()};
  LimitMetrics metrics_{registry_};
};

TEST_F(CallRateTest, BurstThenTheRate) {
  CallLimits limits(Rate(2, 3), &metrics_);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limits.AdmitCall(ann_, At(0)).ok()) << i;
  const grpc::Status refused = limits.AdmitCall(ann_, At(0));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(),
            "operator ann asks for more than 2 calls a second: try again in 500ms");
  EXPECT_EQ(InfoOf(refused).reason(), "TOO_MANY_REQUESTS");
  EXPECT_EQ(InfoOf(refused).metadata().at("retry_after_s"), "0.5");
  EXPECT_TRUE(limits.AdmitCall(ann_, At(0.5)).ok());
  EXPECT_FALSE(limits.AdmitCall(ann_, At(0.5)).ok());
  EXPECT_THAT(registry_.Text(),
              HasSubstr("paceline_limit_refusals_total{limit=\"call_rate\"} 2\n"));
  EXPECT_THAT(registry_.Text(),
              HasSubstr("paceline_limit_refusals_total{limit=\"mutation_rate\"} 0\n"));
}

TEST_F(CallRateTest, CallersAreToldApartByRoleAndName) {
  CallLimits limits(Rate(1, 1), &metrics_);
  EXPECT_TRUE(limits.AdmitCall(ann_, At(0)).ok());
  EXPECT_FALSE(limits.AdmitCall(ann_, At(0)).ok());
  EXPECT_TRUE(limits.AdmitCall({Role::kOperator, "bob"}, At(0)).ok());
  EXPECT_TRUE(limits.AdmitCall({Role::kWorker, "ann"}, At(0)).ok());
}

TEST_F(CallRateTest, ALargeAnswerIsAsManyCalls) {
  CallLimits limits(Rate(2, 3), &metrics_);
  EXPECT_TRUE(limits.AdmitCall(ann_, At(0)).ok());
  limits.Charge(ann_, 3 * kPartsOfCall, At(0));
  EXPECT_FALSE(limits.AdmitCall(ann_, At(0.5)).ok());
  EXPECT_TRUE(limits.AdmitCall(ann_, At(1)).ok());
  EXPECT_TRUE(limits.AdmitCall({Role::kOperator, "bob"}, At(0)).ok());
}

// For example after a restart of the controller; at the lowest rate.
TEST_F(CallRateTest, AllWorkersOfALargeClusterAreLetInAtOnce) {
  CallLimits limits(Rate(1e-3, 1), &metrics_);
  for (int i = 0; i < 12'500; ++i) {
    ASSERT_TRUE(limits.AdmitCall({Role::kWorker, absl::StrCat("w", i)}, At(0)).ok()) << i;
  }
}

TEST_F(CallRateTest, ABurstOfLessThanACallIsOne) {
  CallLimits limits(Rate(0.01, 0.1), &metrics_);
  EXPECT_TRUE(limits.AdmitCall(ann_, At(0)).ok());
  EXPECT_FALSE(limits.AdmitCall(ann_, At(99)).ok());
  EXPECT_TRUE(limits.AdmitCall(ann_, At(101)).ok());
}

TEST_F(CallRateTest, ZeroIsNoLimit) {
  CallLimits limits(Rate(0, 1), &metrics_);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limits.AdmitCall(ann_, At(0)).ok());
}

}  // namespace
}  // namespace paceline
