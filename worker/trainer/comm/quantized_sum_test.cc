#include "worker/trainer/comm/quantized_sum.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cstring>

#include "worker/trainer/comm/cpu_row_codec.h"
#include "worker/trainer/comm/testing/rank_threads.h"

namespace paceline {
namespace {

void ExpectEqualOnAll(Group& all, const at::Tensor& vector) {
  const at::Tensor gathered = at::empty({all.size() * vector.numel()}, vector.options());
  all.Gather(gathered, vector);
  for (int member = 0; member < all.size(); ++member) {
    EXPECT_EQ(std::memcmp(gathered.narrow(0, member * vector.numel(), vector.numel()).data_ptr(),
                          vector.const_data_ptr(), static_cast<size_t>(vector.nbytes())),
              0);
  }
}

// Sizes with short or empty parts, and with several rows per part.
constexpr int64_t kCounts[] = {1, 513, 5 * kRowValues + 100, 100'000};

// What is left out at most of values up to 5, and of their sum.
double RestOf(RowFormat format, int ranks) {
  const double greatest = 5.0 * (ranks + 1);
  if (format == RowFormat::kInt8) return greatest / 127;
  return format == RowFormat::kInt4 ? greatest / 7 : greatest / 8;
}

class QuantizedSumTest : public testing::TestWithParam<RowFormat> {};

TEST_P(QuantizedSumTest, SumAndRestsAreWhatTheRanksHad) {
  for (const int ranks : {2, 3, 5}) {
    RunRanks(Ranks(ranks), [&](const TrainerConfig& /*config*/, Groups& groups) {
      CpuRowCodec codec;
      for (const int64_t count : kCounts) {
        QuantizedSum quantized(codec, GetParam(), groups.all(), count, at::kFloat);
        at::Tensor rest = at::full({count}, 77, at::kFloat);
        for (int round = 0; round < 3; ++round) {
          const at::Tensor had = at::randn({count});
          at::Tensor vector = had.clone();
          quantized.Sum(vector, rest);
          ExpectEqualOnAll(groups.all(), vector);
          const at::Tensor passed = had.sub(rest).to(at::kDouble);
          groups.all().Sum(passed);
          EXPECT_TRUE(at::allclose(vector.to(at::kDouble), passed, 0, 1e-5));
          EXPECT_LT(rest.abs().max().item<float>(), RestOf(GetParam(), ranks));
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedSumTest,
                         testing::Values(RowFormat::kInt4, RowFormat::kInt8, RowFormat::kFp8));

// Multiples of 127 steps of a power of two: only the codec rounds.
TEST(QuantizedSumInt8Test, NothingIsLostToTheBit) {
  constexpr int kRanks = 4;
  RunRanks(Ranks(kRanks), [&](const TrainerConfig& /*config*/, Groups& groups) {
    CpuRowCodec codec;
    constexpr int64_t kCount = 3000;
    QuantizedSum int8(codec, RowFormat::kInt8, groups.all(), kCount, at::kFloat);
    at::Tensor rest = at::zeros({kCount});
    const at::Tensor had = at::randint(-127 * 64, 127 * 64 + 1, {kCount}, at::kFloat);
    // The greatest value of each row makes the scale 64, and 64 * ranks in the sums' rows.
    for (int64_t row = 0; row < kCount; row += kRowValues) had[row] = 127 * 64;
    at::Tensor vector = had.clone();
    int8.Sum(vector, rest);
    EXPECT_GT(rest.abs().max().item<float>(), 0);
    const at::Tensor passed = had.sub(rest);
    groups.all().Sum(passed);
    EXPECT_TRUE(vector.equal(passed));
  });
}

TEST(QuantizedSumInt8Test, SendsAQuarterOfTheBytes) {
  RunRanks(Ranks(4), [](const TrainerConfig& /*config*/, Groups& groups) {
    CpuRowCodec codec;
    constexpr int64_t kCount = 1 << 20;
    QuantizedSum int8(codec, RowFormat::kInt8, groups.all(), kCount, at::kFloat);
    at::Tensor vector = at::full({kCount}, 1, at::kFloat);
    at::Tensor rest = at::zeros_like(vector);
    const int64_t ring = 2 * 3 * kCount * 4 / 4;  // Bytes of an fp32 ring.
    const int64_t sent = int8.Sum(vector, rest);
    EXPECT_LT(sent, 0.26 * ring);
    EXPECT_GT(sent, 0.25 * ring);
  });
}

TEST(QuantizedSumInt8Test, ARankThatIsAloneKeepsItsVector) {
  RunRanks(Ranks(1), [](const TrainerConfig& /*config*/, Groups& groups) {
    CpuRowCodec codec;
    QuantizedSum int8(codec, RowFormat::kInt8, groups.all(), 10, at::kFloat);
    at::Tensor vector = at::full({10}, 0.3, at::kFloat);
    at::Tensor rest = at::full({10}, 1, at::kFloat);
    EXPECT_EQ(int8.Sum(vector, rest), 0);
    EXPECT_EQ(vector[9].item<float>(), 0.3F);
    EXPECT_EQ(rest[9].item<float>(), 0);
  });
}

}  // namespace
}  // namespace paceline
