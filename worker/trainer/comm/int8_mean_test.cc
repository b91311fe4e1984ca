#include "worker/trainer/comm/int8_mean.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

constexpr int64_t kValues = 5 * kInt8Row + 100;

// The values of rank `rank` in round `round`.
std::vector<float> Draw(int rank, int round) {
  std::mt19937 random(static_cast<unsigned>(1000 * rank + round));
  std::normal_distribution<float> normal;
  std::vector<float> values(kValues);
  for (float& value : values) value = normal(random);
  return values;
}

at::Tensor TensorOf(const std::vector<float>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(float));
  return tensor;
}

// Bit for bit the same on all members.
void ExpectEqualOnAll(Group& all, const at::Tensor& vector) {
  at::Tensor gathered = at::empty({all.size() * vector.numel()}, at::kFloat);
  all.Gather(gathered, vector);
  for (int member = 0; member < all.size(); ++member) {
    EXPECT_EQ(std::memcmp(gathered.narrow(0, member * vector.numel(), vector.numel()).data_ptr(),
                          vector.const_data_ptr(), static_cast<size_t>(vector.nbytes())),
              0);
  }
}

double LargestDifference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

class Int8MeanTest : public testing::TestWithParam<int> {};

TEST_P(Int8MeanTest, IsNearTheMeanAndEqualOnAllMembers) {
  const int members = GetParam();
  RunRanks(Ranks(members), [&](const TrainerConfig& config, Groups& groups) {
    const at::Tensor reference = TensorOf(Draw(99, 0));
    Int8Mean int8(groups.int8_codec(), groups.all(), reference);
    at::Tensor mean = at::zeros({kValues}, at::kFloat);
    for (int rank = 0; rank < members; ++rank) {
      mean.add_(TensorOf(Draw(rank, 0)), 1.0 / members);
    }
    at::Tensor vector = reference.add(TensorOf(Draw(config.rank(), 0)));
    at::Tensor riders = at::full({2}, config.rank(), at::kFloat);
    const int64_t bytes = int8.Average(vector, riders);
    ExpectEqualOnAll(groups.all(), vector);
    // Two roundings, each at most half of 1/127 of the largest change, which is about 4.
    EXPECT_LT(LargestDifference(vector, reference.add(mean)), 0.035);
    EXPECT_EQ(riders[0].item<float>(), static_cast<float>(members * (members - 1)) / 2);

    const int64_t rows = (6 + members - 1) / members;
    EXPECT_EQ(bytes, (members - 1) * (2 * rows * (kInt8Row + 4) + 8));
  });
}

// In each round every rank changes the common vector in its own way. Rounding errors are sent
// later, so the sum over all rounds stays close to the exact one.
TEST_P(Int8MeanTest, NothingIsLostInTheLongRun) {
  const int members = GetParam();
  constexpr int kRounds = 60;
  RunRanks(Ranks(members), [&](const TrainerConfig& config, Groups& groups) {
    at::Tensor vector = at::zeros({kValues}, at::kFloat);
    at::Tensor exact = at::zeros({kValues}, at::kDouble);
    Int8Mean int8(groups.int8_codec(), groups.all(), vector);
    for (int round = 0; round < kRounds; ++round) {
      for (int rank = 0; rank < members; ++rank) {
        // Far below most rows' rounding step, and always in the same direction.
        exact.add_(TensorOf(Draw(rank, round)).add(0.001).to(at::kDouble), 1.0 / members);
      }
      vector.add_(TensorOf(Draw(config.rank(), round)).add(0.001));
      int8.Average(vector, at::Tensor());
      int8.Accept();
      ASSERT_LT(LargestDifference(vector.to(at::kDouble), exact), 0.04) << round;
    }
    ExpectEqualOnAll(groups.all(), vector);
  });
}

TEST_P(Int8MeanTest, FollowsTheReference) {
  RunRanks(Ranks(GetParam()), [&](const TrainerConfig& config, Groups& groups) {
    at::Tensor vector = at::zeros({kValues}, at::kFloat);
    Int8Mean int8(groups.int8_codec(), groups.all(), vector);
    vector.fill_(1000);  // As a wider mean would do for all members.
    int8.SetReference(vector);
    vector.add_(TensorOf(Draw(0, 0)).mul(1e-3));
    const at::Tensor expected = vector.clone();
    int8.Average(vector, at::Tensor());
    EXPECT_LT(LargestDifference(vector, expected), 1e-4) << config.rank();
  });
}

// Who gives a mean up, and takes its residuals back, makes the same mean again.
TEST_P(Int8MeanTest, OnlyAnAcceptedMeanIsTheReference) {
  RunRanks(Ranks(GetParam()), [&](const TrainerConfig& config, Groups& groups) {
    const at::Tensor reference = TensorOf(Draw(99, 0));
    const at::Tensor own = reference.add(TensorOf(Draw(config.rank(), 0)));
    Int8Mean int8(groups.int8_codec(), groups.all(), reference);
    at::Tensor given_up = own.clone();
    int8.Average(given_up, at::Tensor());
    EXPECT_TRUE(int8.reference().equal(reference));
    EXPECT_EQ(int8.reference_number(), 1);
    ASSERT_TRUE(int8.residuals_before().has_value());
    EXPECT_FALSE(int8.residuals_before()->own.any().item<bool>()) << "zero at the start";

    Int8Mean again(groups.int8_codec(), groups.all(), int8.reference());
    again.SetResiduals(*int8.residuals_before());
    at::Tensor vector = own.clone();
    again.Average(vector, at::Tensor());
    again.Accept();
    EXPECT_TRUE(vector.equal(given_up));
    EXPECT_TRUE(again.reference().equal(vector));
    EXPECT_EQ(again.reference_number(), 2);
    EXPECT_FALSE(again.residuals_before().has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(Members, Int8MeanTest, testing::Values(2, 3, 4, 8));

TEST(Int8MeanBytesTest, AreAQuarterOfThoseOfFloats) {
  RunRanks(Ranks(4), [](const TrainerConfig& /*config*/, Groups& groups) {
    at::Tensor vector = at::zeros({64 * kInt8Row}, at::kFloat);
    const int64_t bytes =
        Int8Mean(groups.int8_codec(), groups.all(), vector).Average(vector, at::Tensor());
    const int64_t floats = 2 * 3 * static_cast<int64_t>(vector.nbytes()) / 4;
    EXPECT_EQ(static_cast<double>(bytes) / static_cast<double>(floats), 0.25 * (1 + 4.0 / 512));
  });
}

}  // namespace
}  // namespace paceline
