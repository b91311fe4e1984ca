#include "worker/trainer/comm/int8_sum.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cstring>

#include "worker/trainer/comm/cpu_int8_codec.h"
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
constexpr int64_t kCounts[] = {1, 513, 5 * kInt8Row + 100, 100'000};

TEST(Int8SumTest, SumAndRestsAreWhatTheRanksHad) {
  for (const int ranks : {2, 3, 5}) {
    RunRanks(Ranks(ranks), [&](const TrainerConfig& /*config*/, Groups& groups) {
      CpuInt8Codec codec;
      for (const int64_t count : kCounts) {
        Int8Sum int8(codec, groups.all(), count, at::kFloat);
        at::Tensor rest = at::full({count}, 77, at::kFloat);
        for (int round = 0; round < 3; ++round) {
          const at::Tensor had = at::randn({count});
          at::Tensor vector = had.clone();
          int8.Sum(vector, rest);
          ExpectEqualOnAll(groups.all(), vector);
          const at::Tensor passed = had.sub(rest).to(at::kDouble);
          groups.all().Sum(passed);
          EXPECT_TRUE(at::allclose(vector.to(at::kDouble), passed, 0, 1e-5));
          // Two roundings, each by at most half of 1/127 of a row's greatest value.
          EXPECT_LT(rest.abs().max().item<float>(), 5.0 * (ranks + 1) / 127);
        }
      }
    });
  }
}

// Multiples of 127 steps of a power of two: only the codec rounds.
TEST(Int8SumTest, NothingIsLostToTheBit) {
  constexpr int kRanks = 4;
  RunRanks(Ranks(kRanks), [&](const TrainerConfig& /*config*/, Groups& groups) {
    CpuInt8Codec codec;
    constexpr int64_t kCount = 3000;
    Int8Sum int8(codec, groups.all(), kCount, at::kFloat);
    at::Tensor rest = at::zeros({kCount});
    const at::Tensor had = at::randint(-127 * 64, 127 * 64 + 1, {kCount}, at::kFloat);
    // The greatest value of each row makes the scale 64, and 64 * ranks in the sums' rows.
    for (int64_t row = 0; row < kCount; row += kInt8Row) had[row] = 127 * 64;
    at::Tensor vector = had.clone();
    int8.Sum(vector, rest);
    EXPECT_GT(rest.abs().max().item<float>(), 0);
    const at::Tensor passed = had.sub(rest);
    groups.all().Sum(passed);
    EXPECT_TRUE(vector.equal(passed));
  });
}

TEST(Int8SumTest, SendsAQuarterOfTheBytes) {
  RunRanks(Ranks(4), [](const TrainerConfig& /*config*/, Groups& groups) {
    CpuInt8Codec codec;
    constexpr int64_t kCount = 1 << 20;
    Int8Sum int8(codec, groups.all(), kCount, at::kFloat);
    at::Tensor vector = at::full({kCount}, 1, at::kFloat);
    at::Tensor rest = at::zeros_like(vector);
    const int64_t ring = 2 * 3 * kCount * 4 / 4;  // Bytes of an fp32 ring.
    const int64_t sent = int8.Sum(vector, rest);
    EXPECT_LT(sent, 0.26 * ring);
    EXPECT_GT(sent, 0.25 * ring);
  });
}

TEST(Int8SumTest, ARankThatIsAloneKeepsItsVector) {
  RunRanks(Ranks(1), [](const TrainerConfig& /*config*/, Groups& groups) {
    CpuInt8Codec codec;
    Int8Sum int8(codec, groups.all(), 10, at::kFloat);
    at::Tensor vector = at::full({10}, 0.3, at::kFloat);
    at::Tensor rest = at::full({10}, 1, at::kFloat);
    EXPECT_EQ(int8.Sum(vector, rest), 0);
    EXPECT_EQ(vector[9].item<float>(), 0.3F);
    EXPECT_EQ(rest[9].item<float>(), 0);
  });
}

}  // namespace
}  // namespace paceline
