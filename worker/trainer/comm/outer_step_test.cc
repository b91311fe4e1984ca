#include "worker/trainer/comm/outer_step.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace paceline {
namespace {

using Kind = OuterRule::Kind;

// One parameter by the formulas of core/outer_rule.h.
struct Parameter {
  double point;
  double momentum = 0;

  void Step(const OuterRule& rule, double mean) {
    const double difference = point - mean;
    momentum = rule.momentum * momentum + difference;
    const bool looks_ahead = rule.kind == Kind::kNesterov;
    const double step = looks_ahead ? difference + rule.momentum * momentum : momentum;
    point -= rule.learning_rate * step;
  }
};

TEST(OuterStepTest, EachParameterMakesTheStepOfTheFormulas) {
  for (const OuterRule& rule :
       {OuterRule{Kind::kNesterov, 0.7, 0.9}, OuterRule{Kind::kSlowMo, 1, 0.5},
        OuterRule{Kind::kNesterov, 1, 0}, OuterRule{Kind::kSlowMo, 1.5, 0.9}}) {
    std::vector<Parameter> expected;
    for (const double first : {1.0, -2.0, 0.0, 0.125, 30.0}) expected.push_back({first});
    OuterStep outer(rule, at::tensor({1.0F, -2.0F, 0.0F, 0.125F, 30.0F}));
    for (int round = 0; round < 6; ++round) {
      const at::Tensor mean = outer.point().clone();
      for (int i = 0; i < 5; ++i) {
        const double change = 0.25 * (i + 1) - 0.5 * round;
        mean[i].add_(change);
        expected[static_cast<size_t>(i)].Step(rule,
                                              expected[static_cast<size_t>(i)].point + change);
      }
      outer.Step(mean);
      outer.Accept();
      outer.SetPoint(mean);
      for (int i = 0; i < 5; ++i) {
        const Parameter& one = expected[static_cast<size_t>(i)];
        EXPECT_NEAR(outer.point()[i].item<double>(), one.point, 1e-4 * (1 + std::abs(one.point)));
        EXPECT_NEAR(outer.momentum()[i].item<double>(), one.momentum, 1e-4);
      }
    }
  }
}

TEST(OuterStepTest, NothingCountsBeforeItIsAccepted) {
  OuterStep outer({Kind::kNesterov, 0.5, 0.5}, at::ones({3}));
  const at::Tensor first = at::full({3}, 3, at::kFloat);
  outer.Step(first);  // d = -2; momentum -2; 1 + 0.5 (2 + 0.5 * 2)
  EXPECT_TRUE(first.equal(at::full({3}, 2.5, at::kFloat)));
  EXPECT_TRUE(outer.point().equal(at::ones({3})));
  EXPECT_TRUE(outer.momentum().equal(at::zeros({3})));
  EXPECT_TRUE(outer.latest_momentum().equal(at::full({3}, -2, at::kFloat)));
  EXPECT_EQ(outer.point_number(), 1);
  const at::Tensor again = at::full({3}, 3, at::kFloat);
  outer.Step(again);
  EXPECT_TRUE(again.equal(first)) << "as if the first had not been";
  outer.Accept();
  outer.SetPoint(again);
  EXPECT_TRUE(outer.momentum().equal(at::full({3}, -2, at::kFloat)));
  EXPECT_TRUE(outer.point().equal(first));
  EXPECT_EQ(outer.point_number(), 2);
}

// More values than are stepped at a time.
TEST(OuterStepTest, AllValuesOfALargeModelMakeTheSameStep) {
  const int64_t values = (int64_t{1} << 22) + 3;
  OuterStep outer({Kind::kSlowMo, 0.5, 0.9}, at::zeros({values}));
  const at::Tensor mean = at::ones({values});
  outer.Step(mean);
  EXPECT_TRUE(mean.eq(0.5).all().item<bool>());
  EXPECT_TRUE(outer.latest_momentum().eq(-1).all().item<bool>());
}

TEST(OuterStepTest, AnotherObjectContinues) {
  const OuterRule rule{Kind::kNesterov, 0.7, 0.9};
  OuterStep outer(rule, at::zeros({4}));
  const at::Tensor mean = at::ones({4});
  outer.Step(mean);
  outer.Accept();
  outer.SetPoint(mean);
  OuterStep other(rule, at::zeros({4}));
  other.Resume(outer.point(), outer.point_number());
  other.SetMomentum(outer.momentum());
  EXPECT_EQ(other.point_number(), 2);
  const at::Tensor one = at::full({4}, 5, at::kFloat);
  const at::Tensor two = one.clone();
  outer.Step(one);
  other.Step(two);
  EXPECT_TRUE(one.equal(two));
  EXPECT_TRUE(outer.latest_momentum().equal(other.latest_momentum()));
}

}  // namespace
}  // namespace paceline
