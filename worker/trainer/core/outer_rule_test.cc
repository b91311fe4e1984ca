#include "worker/trainer/core/outer_rule.h"

#include <gtest/gtest.h>

#include <limits>

namespace paceline {
namespace {

using Kind = OuterRule::Kind;

// torch.optim.SGD, written out: buf = momentum buf + g, and g + momentum buf or buf is the step.
struct Sgd {
  double learning_rate;
  double momentum;
  bool nesterov;
  double value;
  double buf = 0;

  void Step(double gradient) {
    buf = momentum * buf + gradient;
    value -= learning_rate * (nesterov ? gradient + momentum * buf : buf);
  }
};

TEST(OuterRuleTest, FactorsAreThoseOfSgdOnTheDifference) {
  for (const Kind kind : {Kind::kNesterov, Kind::kSlowMo}) {
    for (const double learning_rate : {0.25, 0.7, 1.0, 1.5}) {
      for (const double momentum : {0.0, 0.5, 0.9}) {
        const OuterFactors factors = FactorsOf({kind, learning_rate, momentum});
        Sgd sgd{learning_rate, momentum, kind == Kind::kNesterov, /*value=*/3};
        double point = 3;
        double kept = 0;
        for (const double change : {0.5, -0.25, 2.0, 0.0, -1.0}) {
          const double difference = -change;  // The mean is `change` above the point.
          sgd.Step(difference);
          kept = factors.momentum * kept + difference;
          point -= factors.difference * difference + factors.step * kept;
          EXPECT_NEAR(point, sgd.value, 1e-5) << learning_rate << " " << momentum;
        }
      }
    }
  }
}

TEST(OuterRuleTest, RateOneWithoutMomentumIsThePlainMean) {
  for (const Kind kind : {Kind::kNesterov, Kind::kSlowMo}) {
    const OuterFactors factors = FactorsOf({kind, 1, 0});
    EXPECT_EQ(factors.momentum, 0);
    EXPECT_EQ(factors.difference + factors.step, 1) << "point - d is the mean";
  }
}

// SlowMo's algorithm 1 with a constant inner rate: its momentum is this one divided by the rate.
TEST(OuterRuleTest, SlowMoIsThatOfThePaperWhereTheInnerRateIsConstant) {
  const double gamma = 0.05;
  const OuterFactors factors = FactorsOf({Kind::kSlowMo, 0.8, 0.6});
  double paper = 1;
  double u = 0;
  double point = 1;
  double kept = 0;
  for (const double change : {0.3, 0.1, -0.2, 0.4}) {
    u = 0.6 * u + -change / gamma;
    paper -= 0.8 * gamma * u;
    kept = factors.momentum * kept - change;
    point -= factors.difference * -change + factors.step * kept;
    EXPECT_NEAR(point, paper, 1e-6);
    EXPECT_NEAR(kept, gamma * u, 1e-6);
  }
}

TEST(OuterRuleTest, ImpossibleNumbersAreFound) {
  EXPECT_TRUE(IsPossible({Kind::kNesterov, 0.7, 0.9}));
  EXPECT_TRUE(IsPossible({Kind::kSlowMo, 1, 0}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double rate : {0.0, -1.0, nan, infinity}) {
    EXPECT_FALSE(IsPossible({Kind::kNesterov, rate, 0.9})) << rate;
  }
  for (const double momentum : {-0.1, 1.0, nan}) {
    EXPECT_FALSE(IsPossible({Kind::kNesterov, 0.7, momentum})) << momentum;
  }
}

}  // namespace
}  // namespace paceline
