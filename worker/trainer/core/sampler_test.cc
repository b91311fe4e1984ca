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

// The batches of all ranks of a job, step by step.
class Ranks {
 public:
  explicit Ranks(Sampler::Options options, DataPosition start = {}) {
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      samplers_.emplace_back(options, start);
    }
  }

  // The sorted samples of all ranks at the next step.
  std::vector<int64_t> Step() {
    std::vector<int64_t> all;
    std::vector<int64_t> one;
    for (Sampler& sampler : samplers_) {
      sampler.Next(&one);
      all.insert(all.end(), one.begin(), one.end());
      EXPECT_EQ(sampler.position(), samplers_.front().position());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  DataPosition position() const { return samplers_.front().position(); }

 private:
  std::vector<Sampler> samplers_;
};

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

// Each of 16 values should reach each of 16 places equally often: chi-squared with 225 degrees of
// freedom, mean 225, standard deviation 21; allow five deviations.
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

// Neighbours must not stay neighbours: after a uniform shuffle, the number of pairs (i, i+1) that
// are still adjacent in order is about Poisson with mean 1.
TEST(PermutationTest, NeighboursAreTornApart) {
  int kept = 0;
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    const std::vector<int64_t> order = Order(1797, 5, epoch);
    for (size_t i = 1; i < order.size(); ++i) kept += order[i] == order[i - 1] + 1;
  }
  EXPECT_LT(kept, 45);  // Mean 20, standard deviation 4.5.
}

TEST(PermutationTest, HoldsForSizesThatFitNoMemory) {
  constexpr int64_t kSize = (int64_t{1} << 40) + 12345;
  const Permutation permutation(kSize, 1, 2);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 10000; ++i) {
    const int64_t at = permutation.At(kSize - 1 - i);
    ASSERT_TRUE(at >= 0 && at < kSize) << at;
    seen.insert(at);
  }
  EXPECT_EQ(seen.size(), 10000u);
}

TEST(SamplerTest, SequentialGoesThroughTheFileByRank) {
  Sampler::Options options;
  options.samples = 14;
  options.rank = 1;
  options.world_size = 2;
  options.batch = 3;
  options.shuffle = false;
  Sampler sampler(options);
  std::vector<int64_t> indices;
  sampler.Next(&indices);
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 3, 5}));
  sampler.Next(&indices);
  EXPECT_EQ(indices, (std::vector<int64_t>{7, 9, 11}));
  EXPECT_EQ(sampler.position(), (DataPosition{0, 12}));
  sampler.Next(&indices);  // Positions 12 and 13 are too few for a step: a new epoch.
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 3, 5}));
  EXPECT_EQ(sampler.position(), (DataPosition{1, 6}));
}

TEST(SamplerTest, AnEpochTakesEachSampleOnce) {
  Sampler::Options options;
  options.samples = 1000;
  options.world_size = 3;
  options.batch = 8;
  Ranks ranks(options);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t step = 0; step < 41; ++step) {
      for (int64_t index : ranks.Step()) {
        EXPECT_TRUE(index >= 0 && index < 1000);
        seen.insert(index);
      }
      EXPECT_EQ(ranks.position(), (DataPosition{epoch, (step + 1) * 24}));
    }
    EXPECT_EQ(seen.size(), 41u * 24u);
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
    Ranks four(many);
    Ranks alone(one);
    for (int64_t step = 0; step < 40; ++step) ASSERT_EQ(four.Step(), alone.Step()) << step;
  }
}

TEST(SamplerTest, SkippingLeadsWhereTakingLeads) {
  Sampler::Options options;
  options.samples = 50;
  options.world_size = 2;
  options.batch = 4;
  Sampler taker(options);
  Sampler skipper(options);
  std::vector<int64_t> indices;
  for (int step = 0; step < 20; ++step) {
    taker.Next(&indices);
    skipper.Skip();
    ASSERT_EQ(taker.position(), skipper.position()) << step;
  }
}

// For every cut and every new split: the samples taken before the cut, and after it until the epoch
// ends, are those of the epoch's order from its start, each exactly once.
TEST(SamplerTest, AnotherNumberOfRanksGoesOnExactlyInTheMiddleOfAnEpoch) {
  constexpr int64_t kSamples = 97;
  const std::vector<int64_t> order = Order(kSamples, 5, 1);
  Sampler::Options before;
  before.samples = kSamples;
  before.seed = 5;
  before.world_size = 3;
  before.batch = 4;
  for (int world_size : {1, 2, 3, 5, 8}) {
    for (int64_t batch : {1, 3, 4, 7}) {
      for (int64_t cut = 0; cut <= 8; ++cut) {
        Ranks first(before, {1, 0});
        std::vector<int64_t> taken;
        const auto take = [&taken](Ranks& ranks) {
          const std::vector<int64_t> step = ranks.Step();
          taken.insert(taken.end(), step.begin(), step.end());
        };
        for (int64_t step = 0; step < cut; ++step) take(first);
        Sampler::Options after = before;
        after.world_size = world_size;
        after.batch = batch;
        const int64_t together = batch * world_size;
        Ranks second(after, first.position());
        while (second.position().offset + together <= kSamples) take(second);

        ASSERT_LT(kSamples - static_cast<int64_t>(taken.size()), together);
        std::vector<int64_t> expected(order.begin(),
                                      order.begin() + static_cast<int64_t>(taken.size()));
        std::sort(expected.begin(), expected.end());
        std::sort(taken.begin(), taken.end());
        ASSERT_EQ(taken, expected) << world_size << " ranks, batch " << batch << ", cut " << cut;
        second.Step();
        ASSERT_EQ(second.position(), (DataPosition{2, together}));
      }
    }
  }
}

// For all small sizes: an epoch takes each sample once, the ranks take together what one rank with
// the whole batch takes, and only in the last pass are their numbers of samples unequal.
TEST(SamplerTest, WithoutDropLastAnEpochTakesEverySampleOnce) {
  for (int64_t samples = 1; samples <= 26; ++samples) {
    for (int world_size : {1, 2, 3, 5}) {
      for (int64_t batch : {1, 2, 3}) {
        Sampler::Options options;
        options.samples = samples;
        options.batch = batch;
        options.world_size = world_size;
        options.seed = 9;
        options.drop_last = false;
        Sampler::Options whole = options;
        whole.world_size = 1;
        whole.batch = batch * world_size;
        Ranks ranks(options);
        Ranks alone(whole);
        for (int64_t epoch = 0; epoch < 2; ++epoch) {
          std::vector<int64_t> taken;
          while (static_cast<int64_t>(taken.size()) < samples) {
            const std::vector<int64_t> pass = ranks.Step();
            ASSERT_EQ(pass, alone.Step());
            ASSERT_FALSE(pass.empty());
            taken.insert(taken.end(), pass.begin(), pass.end());
            ASSERT_EQ(ranks.position(), (DataPosition{epoch, static_cast<int64_t>(taken.size())}));
          }
          std::sort(taken.begin(), taken.end());
          ASSERT_EQ(static_cast<int64_t>(taken.size()), samples);
          for (int64_t i = 0; i < samples; ++i) ASSERT_EQ(taken[static_cast<size_t>(i)], i);
        }
      }
    }
  }
}

TEST(SamplerTest, TheFirstRanksHaveWhatDoesNotFillAPass) {
  const auto sizes = [](int64_t samples) {
    std::vector<size_t> of_rank;
    Sampler::Options options;
    options.samples = samples;
    options.batch = 3;
    options.world_size = 4;
    options.drop_last = false;
    std::vector<int64_t> indices;
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      Sampler sampler(options, {0, 12});
      EXPECT_EQ(Sampler(sampler).Skip().samples, samples - 12);
      sampler.Next(&indices);
      of_rank.push_back(indices.size());
    }
    return of_rank;
  };
  EXPECT_EQ(sizes(13), (std::vector<size_t>{1, 0, 0, 0}));
  EXPECT_EQ(sizes(15), (std::vector<size_t>{1, 1, 1, 0}));
  EXPECT_EQ(sizes(18), (std::vector<size_t>{2, 2, 1, 1}));
  EXPECT_EQ(sizes(23), (std::vector<size_t>{3, 3, 3, 2}));
  EXPECT_EQ(sizes(24), (std::vector<size_t>{3, 3, 3, 3}));
}

TEST(SamplerTest, ExactlyOneStepAnEpoch) {
  Sampler::Options options;
  options.samples = 32;
  options.world_size = 2;
  options.batch = 16;
  Ranks ranks(options);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(ranks.Step().size(), 32u);
    EXPECT_EQ(ranks.position(), (DataPosition{epoch, 32}));
  }
}

}  // namespace
}  // namespace paceline
