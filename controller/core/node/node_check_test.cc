#include "controller/core/node/node_check.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

CheckResult Measured(int64_t id, double gemm, double latency = 10, double errors = 0) {
  CheckResult result;
  result.id = id;
  result.measurements = {{"gemm", gemm, "GFLOP/s", true},
                         {"loopback_latency", latency, "us", false},
                         {"gpu0_ecc_errors", errors, "", false}};
  return result;
}

// The checks of a node that measured this value three times.
NodeChecks Known(double gemm) {
  NodeChecks checks;
  for (int id = 1; id <= 3; ++id) {
    checks.asked = id;
    checks.running = true;
    EXPECT_TRUE(TakeCheckResult(checks, Measured(id, gemm)));
  }
  return checks;
}

TEST(NodeCheckTest, WorseThanItsOwnMedianAndItsPeersIsBad) {
  const CheckResult fast = Measured(1, 110);
  const CheckResult slow = Measured(1, 90);
  CheckResult result = Measured(4, 79, 13);
  Judge(result, Known(100), {&fast, &slow});
  EXPECT_EQ(result.measurements[0].own_median, 100);
  EXPECT_EQ(result.measurements[0].peer_median, 100);
  EXPECT_TRUE(result.measurements[0].bad);
  EXPECT_TRUE(result.measurements[1].bad) << "less is better";
  EXPECT_FALSE(result.measurements[2].bad);
}

TEST(NodeCheckTest, WithinAFifthOrWorseThanOnlyOneMedianIsNotBad) {
  const CheckResult peer = Measured(1, 100);
  CheckResult result = Measured(4, 81);
  Judge(result, Known(100), {&peer});
  EXPECT_FALSE(result.measurements[0].bad);
  result = Measured(4, 50);
  Judge(result, Known(50), {&peer});
  EXPECT_FALSE(result.measurements[0].bad) << "it has always been so";
  const CheckResult alike = Measured(1, 50);
  Judge(result, Known(100), {&alike});
  EXPECT_FALSE(result.measurements[0].bad) << "its peers are slow too";
}

TEST(NodeCheckTest, OneMedianDecidesWhereThereIsNoOther) {
  CheckResult result = Measured(4, 50);
  Judge(result, Known(100), {});
  EXPECT_TRUE(result.measurements[0].bad);
  const CheckResult peer = Measured(1, 100);
  Judge(result, NodeChecks(), {&peer});
  EXPECT_TRUE(result.measurements[0].bad);
  Judge(result, NodeChecks(), {});
  EXPECT_FALSE(result.measurements[0].bad);
  EXPECT_FALSE(result.measurements[0].own_median.has_value());
}

TEST(NodeCheckTest, AnyErrorIsAFault) {
  CheckResult result = Measured(1, 100, 10, 1);
  Judge(result, NodeChecks(), {});
  EXPECT_TRUE(result.measurements[2].bad);
}

TEST(NodeCheckTest, TrainersBesideAreNoFault) {
  CheckResult result;
  result.measurements = {{"trainers_beside", 2, "", false}};
  CheckResult peer = result;
  peer.measurements[0].value = 0;
  Judge(result, NodeChecks(), {&peer});
  EXPECT_FALSE(result.measurements[0].bad);
}

TEST(NodeCheckTest, ResultOfAnotherCheckIsNotTaken) {
  NodeChecks checks = Known(100);
  EXPECT_FALSE(TakeCheckResult(checks, Measured(3, 1))) << "it is done";
  checks.asked = 4;
  checks.running = true;
  EXPECT_FALSE(TakeCheckResult(checks, Measured(3, 1)));
  EXPECT_TRUE(TakeCheckResult(checks, Measured(4, 1)));
  EXPECT_FALSE(checks.running);
  EXPECT_EQ(checks.result->id, 4);
}

TEST(NodeCheckTest, HistoryIsBounded) {
  NodeChecks checks;
  for (int id = 1; id <= 30; ++id) {
    checks.asked = id;
    checks.running = true;
    TakeCheckResult(checks, Measured(id, id));
  }
  ASSERT_EQ(checks.earlier.at("gemm").size(), kMeasurementsKept);
  EXPECT_EQ(checks.earlier.at("gemm").back(), 29);
}

}  // namespace
}  // namespace paceline
