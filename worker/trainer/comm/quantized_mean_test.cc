#include "worker/trainer/comm/quantized_mean.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "worker/trainer/comm/cpu_row_codec.h"
#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

constexpr int64_t kValues = 5 * kRowValues + 100;

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

// What two roundings of values up to 5, and one of them of a mean, leave out at most.
double TwoRoundings(RowFormat format) {
  switch (format) {
    case RowFormat::kInt4:
      return 2 * 5.0 / 14;
    case RowFormat::kInt8:
      return 2 * 5.0 / 254;
    case RowFormat::kFp8:
      return 2 * 5.0 / 16;
    case RowFormat::kFp16:
      return 2 * 5.0 / 2048;
    case RowFormat::kBf16:
      return 2 * 5.0 / 256;
  }
  return 0;
}

// The mean by one thread, from the changes of all members: the header's three steps, with the
// member's values whole and padded to equal parts.
class Model {
 public:
  Model(RowFormat format, int members)
      : format_(format), members_(members), part_((6 + members - 1) / members * kRowValues) {
    own_.assign(static_cast<size_t>(members), at::zeros({part_ * members}, at::kFloat));
    for (at::Tensor& one : own_) one = at::zeros_like(one);
    mean_ = at::zeros({part_ * members}, at::kFloat);
  }

  // `changes`: of each member, float [kValues]. Returns the mean's change.
  at::Tensor Average(const std::vector<at::Tensor>& changes) {
    at::Tensor sum = at::zeros({part_ * members_}, at::kFloat);
    for (int member = 0; member < members_; ++member) {
      const at::Tensor padded = at::zeros_like(sum);
      padded.narrow(0, 0, kValues).copy_(changes[static_cast<size_t>(member)]);
      Add(padded, own_[static_cast<size_t>(member)], 1.0F / static_cast<float>(members_), sum);
    }
    at::Tensor result = at::zeros_like(sum);
    Add(sum, mean_, 1, result);
    return result.narrow(0, 0, kValues);
  }

 private:
  // Encodes value and error, and adds what was sent to `sum`.
  void Add(const at::Tensor& value, const at::Tensor& error, float factor, const at::Tensor& sum) {
    const RowCodes codes{at::empty({CodeBytes(format_, value.numel())}, at::kByte),
                         at::empty({RowsOf(value.numel())}, at::kFloat)};
    codec_.Encode(format_, value, error, codes);
    codec_.AddDecoded(format_, codes, factor, sum);
  }

  const RowFormat format_;
  const int members_;
  const int64_t part_;
  CpuRowCodec codec_;
  std::vector<at::Tensor> own_;
  at::Tensor mean_;
};

class QuantizedMeanTest : public testing::TestWithParam<std::tuple<RowFormat, int>> {
 protected:
  RowFormat format() const { return std::get<0>(GetParam()); }
  int members() const { return std::get<1>(GetParam()); }
};

TEST_P(QuantizedMeanTest, IsNearTheMeanAndEqualOnAllMembers) {
  RunRanks(Ranks(members()), [&](const TrainerConfig& config, Groups& groups) {
    const at::Tensor reference = TensorOf(Draw(99, 0));
    QuantizedMean quantized(groups.row_codec(), format(), groups.all(), reference);
    at::Tensor mean = at::zeros({kValues}, at::kFloat);
    for (int rank = 0; rank < members(); ++rank) {
      mean.add_(TensorOf(Draw(rank, 0)), 1.0 / members());
    }
    at::Tensor vector = reference.add(TensorOf(Draw(config.rank(), 0)));
    at::Tensor riders = at::full({2}, config.rank(), at::kFloat);
    const int64_t bytes = quantized.Average(vector, riders);
    ExpectEqualOnAll(groups.all(), vector);
    EXPECT_LT(LargestDifference(vector, reference.add(mean)), TwoRoundings(format()));
    EXPECT_EQ(riders[0].item<float>(), static_cast<float>(members() * (members() - 1)) / 2);

    const int64_t rows = (6 + members() - 1) / members();
    const int64_t row_bytes = CodeBytes(format(), kRowValues) + 4;
    EXPECT_EQ(bytes, (members() - 1) * (2 * rows * row_bytes + 8));
  });
}

// The model is computed by each rank, so the comparison needs no exchange of its own.
TEST_P(QuantizedMeanTest, IsTheHeadersToTheBitRoundAfterRound) {
  RunRanks(Ranks(members()), [&](const TrainerConfig& config, Groups& groups) {
    at::Tensor reference = at::zeros({kValues}, at::kFloat);
    QuantizedMean quantized(groups.row_codec(), format(), groups.all(), reference);
    Model model(format(), members());
    for (int round = 0; round < 4; ++round) {
      std::vector<at::Tensor> changes;
      at::Tensor vector;
      for (int rank = 0; rank < members(); ++rank) {
        const at::Tensor own = reference.add(TensorOf(Draw(rank, round)));
        if (rank == config.rank()) vector = own.clone();
        changes.push_back(own.sub(reference));
      }
      quantized.Average(vector, at::Tensor());
      quantized.Accept();
      reference = reference.add(model.Average(changes));
      ASSERT_TRUE(vector.equal(reference)) << round;
    }
  });
}

// In each round every rank changes the common vector in its own way. Rounding errors are sent
// later, so the sum over all rounds stays close to the exact one.
TEST_P(QuantizedMeanTest, NothingIsLostInTheLongRun) {
  constexpr int kRounds = 60;
  RunRanks(Ranks(members()), [&](const TrainerConfig& config, Groups& groups) {
    at::Tensor vector = at::zeros({kValues}, at::kFloat);
    at::Tensor exact = at::zeros({kValues}, at::kDouble);
    QuantizedMean quantized(groups.row_codec(), format(), groups.all(), vector);
    for (int round = 0; round < kRounds; ++round) {
      for (int rank = 0; rank < members(); ++rank) {
        // Far below most rows' rounding step, and always in the same direction.
        exact.add_(TensorOf(Draw(rank, round)).add(0.001).to(at::kDouble), 1.0 / members());
      }
      vector.add_(TensorOf(Draw(config.rank(), round)).add(0.001));
      quantized.Average(vector, at::Tensor());
      quantized.Accept();
      // An error grows by that of the error that is sent with it, and floats round too.
      ASSERT_LT(LargestDifference(vector.to(at::kDouble), exact),
                1.2 * TwoRoundings(format()) + 1e-4)
          << round;
    }
    ExpectEqualOnAll(groups.all(), vector);
  });
}

TEST_P(QuantizedMeanTest, FollowsTheReference) {
  RunRanks(Ranks(members()), [&](const TrainerConfig& config, Groups& groups) {
    at::Tensor vector = at::zeros({kValues}, at::kFloat);
    QuantizedMean quantized(groups.row_codec(), format(), groups.all(), vector);
    vector.fill_(1000);  // As a wider mean would do for all members.
    quantized.SetReference(vector);
    vector.add_(TensorOf(Draw(0, 0)).mul(1e-3));
    const at::Tensor expected = vector.clone();
    quantized.Average(vector, at::Tensor());
    // Floats of 1000 have a unit of 6e-5.
    EXPECT_LT(LargestDifference(vector, expected), 1e-3 * TwoRoundings(format()) + 7e-5)
        << config.rank();
  });
}

// Who gives a mean up, and takes its residuals back, makes the same mean again.
TEST_P(QuantizedMeanTest, OnlyAnAcceptedMeanIsTheReference) {
  RunRanks(Ranks(members()), [&](const TrainerConfig& config, Groups& groups) {
    const at::Tensor reference = TensorOf(Draw(99, 0));
    const at::Tensor own = reference.add(TensorOf(Draw(config.rank(), 0)));
    QuantizedMean quantized(groups.row_codec(), format(), groups.all(), reference);
    at::Tensor given_up = own.clone();
    quantized.Average(given_up, at::Tensor());
    EXPECT_TRUE(quantized.reference().equal(reference));
    EXPECT_EQ(quantized.reference_number(), 1);
    ASSERT_TRUE(quantized.residuals_before().has_value());
    EXPECT_FALSE(quantized.residuals_before()->own.any().item<bool>()) << "zero at the start";

    QuantizedMean again(groups.row_codec(), format(), groups.all(), quantized.reference());
    again.SetResiduals(*quantized.residuals_before());
    at::Tensor vector = own.clone();
    again.Average(vector, at::Tensor());
    again.Accept();
    EXPECT_TRUE(vector.equal(given_up));
    EXPECT_TRUE(again.reference().equal(vector));
    EXPECT_EQ(again.reference_number(), 2);
    EXPECT_FALSE(again.residuals_before().has_value());
  });
}

INSTANTIATE_TEST_SUITE_P(Int8, QuantizedMeanTest,
                         testing::Combine(testing::Values(RowFormat::kInt8),
                                          testing::Values(2, 3, 4, 8)));
INSTANTIATE_TEST_SUITE_P(Others, QuantizedMeanTest,
                         testing::Combine(testing::Values(RowFormat::kInt4, RowFormat::kFp8,
                                                          RowFormat::kFp16, RowFormat::kBf16),
                                          testing::Values(2, 3)));

TEST(QuantizedMeanBytesTest, AreAnEighthToAHalfOfThoseOfFloats) {
  RunRanks(Ranks(4), [](const TrainerConfig& /*config*/, Groups& groups) {
    at::Tensor vector = at::zeros({64 * kRowValues}, at::kFloat);
    const int64_t floats = 2 * 3 * static_cast<int64_t>(vector.nbytes()) / 4;
    for (const RowFormat format :
         {RowFormat::kInt4, RowFormat::kInt8, RowFormat::kFp8, RowFormat::kBf16}) {
      const int64_t bytes = QuantizedMean(groups.row_codec(), format, groups.all(), vector)
                                .Average(vector, at::Tensor());
      EXPECT_EQ(static_cast<double>(bytes) / static_cast<double>(floats),
                0.25 * (RowValueBits(format) / 8.0 + 4.0 / 512));
    }
  });
}

}  // namespace
}  // namespace paceline
