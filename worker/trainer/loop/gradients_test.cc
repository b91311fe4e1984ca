#include "worker/trainer/loop/gradients.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace paceline {
namespace {

// Parameters with gradients [3, 0] and [[4], [12]]: norms 3 and 4 sqrt(10), total 13.
std::vector<at::Tensor> Parameters() {
  std::vector<at::Tensor> parameters = {at::zeros({2}), at::zeros({2, 1})};
  parameters[0].requires_grad_(true).mutable_grad() = at::tensor({3.0f, 0.0f});
  parameters[1].requires_grad_(true).mutable_grad() = at::tensor({4.0f, 12.0f}).view({2, 1});
  return parameters;
}

TEST(GradientsTest, NormsOfEachAndOfAll) {
  const GradientNorms norms = NormsOfGradients(Parameters());
  ASSERT_EQ(norms.each.sizes(), at::IntArrayRef({2}));
  EXPECT_FLOAT_EQ(norms.each[0].item<float>(), 3);
  EXPECT_FLOAT_EQ(norms.each[1].item<float>(), std::sqrt(160.0f));
  EXPECT_FLOAT_EQ(norms.total.item<float>(), 13);
  EXPECT_EQ(norms.total.dim(), 0);
}

TEST(GradientsTest, ClippingBringsTheNormDownAndNeverUp) {
  std::vector<at::Tensor> parameters = Parameters();
  ClipGradients(parameters, NormsOfGradients(parameters).total, 6.5);
  EXPECT_NEAR(NormsOfGradients(parameters).total.item<float>(), 6.5, 1e-5);
  EXPECT_NEAR(parameters[1].grad()[1][0].item<float>(), 6, 1e-5);
  ClipGradients(parameters, NormsOfGradients(parameters).total, 100);
  EXPECT_NEAR(parameters[1].grad()[1][0].item<float>(), 6, 1e-5);
}

TEST(GradientsTest, GradientsBelowTheLimitAreNotWritten) {
  std::vector<at::Tensor> parameters = Parameters();
  const auto written = [&] { return parameters[0].grad()._version(); };
  const auto before = written();
  ClipGradients(parameters, NormsOfGradients(parameters).total, 14);
  EXPECT_EQ(written(), before);
  ClipGradients(parameters, NormsOfGradients(parameters).total, 12);
  EXPECT_GT(written(), before);
  // NaN is above each limit.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ClipGradients(parameters, at::tensor(nan).reshape({}), 14);
  EXPECT_TRUE(std::isnan(parameters[0].grad()[0].item<float>()));
}

TEST(GradientsTest, NotFiniteTellsNanAndInfinity) {
  const auto judge = [](float norm) { return NotFinite(at::tensor(norm)).item<float>(); };
  EXPECT_EQ(judge(0), 0);
  EXPECT_EQ(judge(2), 0);
  EXPECT_EQ(judge(std::numeric_limits<float>::max()), 0);
  EXPECT_EQ(judge(std::numeric_limits<float>::quiet_NaN()), 1);
  EXPECT_EQ(judge(std::numeric_limits<float>::infinity()), 1);
}

TEST(GradientsTest, AParameterWithoutAGradientCountsAsZero) {
  std::vector<at::Tensor> parameters = Parameters();
  parameters.insert(parameters.begin() + 1, at::zeros({3}));
  GradientNorms norms = NormsOfGradients(parameters);
  EXPECT_FLOAT_EQ(norms.each[0].item<float>(), 3);
  EXPECT_FLOAT_EQ(norms.each[1].item<float>(), 0);
  EXPECT_FLOAT_EQ(norms.total.item<float>(), 13);
  ClipGradients(parameters, norms.total, 6.5);
  EXPECT_NEAR(parameters[0].grad()[0].item<float>(), 1.5, 1e-5);
  EXPECT_FALSE(parameters[1].grad().defined());
  norms = NormsOfGradients({at::zeros({1}), at::zeros({2})});
  EXPECT_EQ(norms.total.item<float>(), 0);
  ClipGradients({at::zeros({1})}, norms.total, 1);
}

// The norm of 512 bf16 ones is 22.627...; in bf16 that is 22.625.
TEST(GradientsTest, NormsOfMixedTypesAreFloats) {
  std::vector<at::Tensor> parameters = {at::zeros({512}, at::kBFloat16), at::zeros({2})};
  for (const at::Tensor& one : parameters) {
    one.requires_grad_(true).mutable_grad() = at::ones_like(one.detach());
  }
  const GradientNorms norms = NormsOfGradients(parameters);
  EXPECT_EQ(norms.each.scalar_type(), at::kFloat);
  EXPECT_FLOAT_EQ(norms.each[0].item<float>(), std::sqrt(512.0f));
}

TEST(GradientsTest, ParametersThatTheLossDoesNotDependOnAreNamed) {
  RequireGradients({});
  try {
    RequireGradients({"a.weight", "b"});
    FAIL();
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                testing::HasSubstr("the loss does not depend on a.weight, b: "));
  }
}

}  // namespace
}  // namespace paceline
