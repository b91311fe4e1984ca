#include "worker/trainer/core/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace paceline {
namespace {

std::vector<int64_t> Order(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) order.push_back(permutation.At(i));
  return order;
}

// What all ranks take at `step`, sorted.
std::vector<int64_t> GlobalBatch(Sampler::Options options, int64_t step) {
  std::vector<int64_t> all;
  std::vector<int64_t> one;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    Sampler(options).Batch(step, &one);
    all.insert(all.end(), one.begin(), one.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(PermutationTest, EverySizeIsABijection) {
  for (int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 1797, 65536, 65537}) {
    std::vector<int64_t> order = Order(size, 7, 1);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i) << size;
  }
}

TEST(PermutationTest, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(Order(1797, 3, 4), Order(1797, 3, 4));
  EXPECT_NE(Order(1797, 3, 4), Order(1797, 3, 5));
  EXPECT_NE(Order(1797, 3, 4), Order(1797, 4, 4));
  EXPECT_NE(Order(1797, 3, 4), Order(1797, 4, 3));
}

TEST(PermutationTest, StaysTheSameFromReleaseToRelease) {
  EXPECT_EQ(Order(10, 0, 0), (std::vector<int64_t>{9, 5, 8, 0, 2, 6, 3, 7, 4, 1}));
}

// Each of 16 values should come to each of 16 places equally often: chi-squared with 225
// degrees of freedom, mean 225, standard deviation 21; five of them allowed.
TEST(PermutationTest, PlacesAreEquallyLikely) {
  constexpr int kSize = 16;
  constexpr int kEpochs = 16000;
  std::vector<int> count(kSize * kSize, 0);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(kSize, 1, static_cast<uint64_t>(epoch));
    for (int i = 0; i < kSize; ++i) ++count[static_cast<size_t>(i * kSize + permutation.At(i))];
  }
  const double expected = double{kEpochs} / kSize;
  double chi_squared = 0;
  for (int c : count) chi_squared += (c - expected) * (c - expected) / expected;
  EXPECT_LT(chi_squared, 225 + 5 * 21.2);
}

// Neighbours must not stay neighbours: after a uniform shuffle the number of pairs
// (i, i+1) that are still adjacent in order is about Poisson with mean 1.
TEST(PermutationTest, NeighboursAreTornApart) {
  int kept = 0;
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    const std::vector<int64_t> order = Order(1797, 5, epoch);
    for (size_t i = 1; i < order.size(); ++i) kept += order[i] == order[i - 1] + 1;
  }
  EXPECT_LT(kept, 45);  // Mean 20, standard deviation 4.5.
}

TEST(SamplerTest, SequentialGoesThroughTheFileByRank) {
  Sampler::Options options;
  options.samples = 14;
  options.rank = 1;
  options.world_size = 2;
  options.batch = 3;
  options.shuffle = false;
  const Sampler sampler(options);
  std::vector<int64_t> indices;
  sampler.Batch(0, &indices);
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 3, 5}));
  sampler.Batch(1, &indices);
  EXPECT_EQ(indices, (std::vector<int64_t>{7, 9, 11}));
  sampler.Batch(2, &indices);  // Positions 12 and 13 fill no step: a new epoch.
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 3, 5}));
}

TEST(SamplerTest, AnEpochTakesEachSampleOnce) {
  Sampler::Options options;
  options.samples = 1000;
  options.world_size = 3;
  options.batch = 8;
  const int64_t steps = Sampler::StepsPerEpoch(options);
  EXPECT_EQ(steps, 41);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t step = 0; step < steps; ++step) {
      for (int64_t index : GlobalBatch(options, epoch * steps + step)) {
        EXPECT_TRUE(index >= 0 && index < 1000);
        seen.insert(index);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(steps * 24));
  }
}

TEST(SamplerTest, ManyRanksTakeTogetherWhatOneWithTheWholeBatchTakes) {
  for (bool shuffle : {false, true}) {
    Sampler::Options many;
    many.samples = 333;
    many.world_size = 4;
    many.batch = 5;
    many.shuffle = shuffle;
    many.seed = 11;
    Sampler::Options one = many;
    one.world_size = 1;
    one.batch = 20;
    for (int64_t step = 0; step < 40; ++step) {
      ASSERT_EQ(GlobalBatch(many, step), GlobalBatch(one, step)) << step;
    }
  }
}

TEST(SamplerTest, TooFewSamplesFillNoStep) {
  Sampler::Options options;
  options.samples = 31;
  options.world_size = 2;
  options.batch = 16;
  EXPECT_EQ(Sampler::StepsPerEpoch(options), 0);
  options.samples = 32;
  EXPECT_EQ(Sampler::StepsPerEpoch(options), 1);
}

}  // namespace
}  // namespace paceline
