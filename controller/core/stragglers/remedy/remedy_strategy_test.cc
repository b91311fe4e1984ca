// Strategies that are changed, and given up.
#include <gtest/gtest.h>

#include <optional>

#include "controller/core/stragglers/remedy/remedy_policy.h"
#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

namespace paceline {
namespace {

TEST(RemedyStrategyTest, StrategyChangesAfterTwoPredictionsThatAgree) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.is_auto = true;
  job.Train(300, 0.3);
  job.TellStrategy(StrategyMove::kChange, SlipstreamMode::kFree, 0.1, std::nullopt, 0.3);
  job.Train(100, 0.3);
  EXPECT_EQ(job.orders, 0);
  job.TellStrategy(StrategyMove::kChange, SlipstreamMode::kDrop, 0.1, std::nullopt, 0.3);
  job.Train(100, 0.3);
  EXPECT_EQ(job.orders, 0) << "of another mode";
  job.TellStrategy(StrategyMove::kChange, SlipstreamMode::kDrop, 0.1, std::nullopt, 0.3);
  ASSERT_EQ(job.orders, 1);
  EXPECT_EQ(job.Last().kind, RemedyKind::kStrategy);
  EXPECT_EQ(job.Last().strategy->mode, SlipstreamMode::kDrop);
  EXPECT_FALSE(job.Last().former_strategy.has_value());
  EXPECT_NEAR(job.Last().predicted_s, 0.1, 1e-9);
}

TEST(RemedyStrategyTest, StrategyIsGivenUpAfterSixPredictionsThatAgree) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.is_auto = true;
  job.Train(300, 0.1);
  for (int i = 1; i <= 5; ++i) {
    job.TellStrategy(StrategyMove::kSynchronous, std::nullopt, 0.1, SlipstreamMode::kFree, 0.1);
    job.Train(100, 0.1);
    ASSERT_EQ(job.orders, 0) << i;
  }
  job.TellStrategy(StrategyMove::kSynchronous, std::nullopt, 0.1, SlipstreamMode::kFree, 0.1);
  ASSERT_EQ(job.orders, 1);
  EXPECT_FALSE(job.Last().strategy.has_value());
  EXPECT_EQ(job.Last().former_strategy->mode, SlipstreamMode::kFree);
}

TEST(RemedyStrategyTest, ModeThatIsSlowerTakesAsLong) {
  PolicyJob job(StragglerMode::kAuto);
  job.facts.is_auto = true;
  job.Train(300, 0.1);
  for (int i = 1; i <= 6; ++i) {
    ASSERT_EQ(job.orders, 0) << i;
    job.TellStrategy(StrategyMove::kChange, SlipstreamMode::kDrop, 0.12, SlipstreamMode::kFree,
                     0.1);
  }
  EXPECT_EQ(job.orders, 1);
}

}  // namespace
}  // namespace paceline
