#include "worker/trainer/core/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "worker/trainer/core/sampler.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

// Mixtures of one to nine sources of different sizes and weights, some of them rare.
std::vector<Mixture> Mixtures() {
  const double weights[] = {1, 0.5, 3, 0.01, 7.3, 0.0001, 1, 2, 0.25};
  std::vector<Mixture> mixtures;
  for (size_t count = 1; count <= 9; ++count) {
    for (size_t first = 0; first < 9; first += 2) {
      std::vector<Mixture::Source> sources;
      for (size_t i = 0; i < count; ++i) {
        const size_t at = (first + i) % 9;
        sources.push_back({static_cast<int64_t>(3 + at * 7 % 23), weights[at]});
      }
      mixtures.emplace_back(sources);
    }
  }
  return mixtures;
}

std::shared_ptr<const Mixture> Three() {
  return std::make_shared<const Mixture>(
      std::vector<Mixture::Source>{{50, 0.7}, {13, 0.2}, {31, 0.1}});
}

// Of all ranks together, of `steps` steps, as they come.
std::vector<int64_t> Taken(Sampler::Options options, int64_t steps, DataPosition start = {}) {
  std::vector<int64_t> all(static_cast<size_t>(steps * options.batch * options.world_size));
  std::vector<int64_t> one;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    Sampler sampler(options, start);
    auto at = static_cast<size_t>(options.rank);
    for (int64_t step = 0; step < steps; ++step) {
      sampler.Next(&one);
      for (const int64_t index : one) {
        all[at] = index;
        at += static_cast<size_t>(options.world_size);
      }
    }
  }
  return all;
}

Sampler::Options OptionsOf(std::shared_ptr<const Mixture> mixture, int world_size, int64_t batch) {
  Sampler::Options options;
  options.samples = mixture->samples();
  options.world_size = world_size;
  options.batch = batch;
  options.seed = 5;
  options.mixture = std::move(mixture);
  return options;
}

TEST(MixtureTest, EachSourcesSamplesComeOneAfterTheOther) {
  for (const Mixture& mixture : Mixtures()) {
    std::vector<int64_t> counts(mixture.sources().size());
    for (int64_t block = 0; block < 30; ++block) {
      for (const Mixture::Taken& taken : mixture.Block(block, /*seed=*/9)) {
        ASSERT_EQ(taken.number, counts[static_cast<size_t>(taken.source)]++);
      }
    }
  }
}

TEST(MixtureTest, SharesAreKeptAtTheEndOfEachBlock) {
  for (const Mixture& mixture : Mixtures()) {
    double sum = 0;
    for (const Mixture::Source& source : mixture.sources()) sum += source.weight;
    for (int64_t block = 0; block < 400; block += 3) {
      const int64_t position = block * Mixture::kBlock;
      const std::vector<int64_t> taken = mixture.TakenBefore(position, /*seed=*/9);
      int64_t all = 0;
      for (size_t i = 0; i < taken.size(); ++i) {
        const double expected = static_cast<double>(position) * mixture.sources()[i].weight / sum;
        // Roundings of the sources before it; and of the share to a multiple of 1 / kShares.
        const double allowed = 0.5 * static_cast<double>(taken.size() + 1) + 0.1;
        EXPECT_NEAR(static_cast<double>(taken[i]), expected, allowed);
        all += taken[i];
      }
      EXPECT_EQ(all, position);
    }
  }
}

TEST(MixtureTest, WhatLiesBeforeAPositionIsWhatIsTakenUpToIt) {
  for (const Mixture& mixture : Mixtures()) {
    std::vector<int64_t> counts(mixture.sources().size());
    for (int64_t block = 0; block < 4; ++block) {
      const auto taken = mixture.Block(block, /*seed=*/2);
      for (int64_t offset = 0; offset < Mixture::kBlock; ++offset) {
        ASSERT_EQ(mixture.TakenBefore(block * Mixture::kBlock + offset, 2), counts);
        ++counts[static_cast<size_t>(taken[static_cast<size_t>(offset)].source)];
      }
    }
  }
}

TEST(MixtureTest, HoldsFarAway) {
  const auto mixture = Three();
  const int64_t block = (int64_t{1} << 50) + 7;
  std::vector<int64_t> counts = mixture->TakenBefore(block * Mixture::kBlock, 1);
  EXPECT_EQ(counts[0] + counts[1] + counts[2], block * Mixture::kBlock);
  for (const Mixture::Taken& taken : mixture->Block(block, 1)) {
    ASSERT_EQ(taken.number, counts[static_cast<size_t>(taken.source)]++);
  }
  EXPECT_EQ(mixture->TakenBefore((block + 1) * Mixture::kBlock, 1), counts);
}

TEST(MixtureTest, BlocksAndSeedsHaveOrdersOfTheirOwn) {
  const auto sources = [](int64_t block, uint64_t seed) {
    std::vector<int> order;
    for (const Mixture::Taken& taken : Three()->Block(block, seed)) order.push_back(taken.source);
    return order;
  };
  EXPECT_EQ(sources(3, 4), sources(3, 4));
  EXPECT_NE(sources(3, 4), sources(4, 4));
  EXPECT_NE(sources(3, 4), sources(3, 5));
}

TEST(MixtureTest, StaysTheSameFromReleaseToRelease) {
  std::vector<int> sources;
  for (const Mixture::Taken& taken : Three()->Block(0, /*seed=*/0)) {
    sources.push_back(taken.source);
  }
  sources.resize(16);
  EXPECT_THAT(sources, ElementsAre(0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 2));
}

// Ranks would train on other mixtures than the job's if a source kept to some of the places of a
// batch: of four sources of equal weight, each is to be at each of eight places equally often.
// Chi-squared with 24 degrees of freedom that are independent at most: mean 24, standard deviation
// 6.9; allow five.
TEST(MixtureTest, NoRankGetsASourceMoreOftenThanOthers) {
  const Mixture mixture({{100, 1}, {100, 1}, {100, 1}, {100, 1}});
  constexpr int kBlocks = 2000;
  std::vector<int> count(32);
  for (int64_t block = 0; block < kBlocks; ++block) {
    const auto taken = mixture.Block(block, /*seed=*/1);
    for (size_t i = 0; i < taken.size(); ++i) {
      ++count[i % 8 * 4 + static_cast<size_t>(taken[i].source)];
    }
  }
  const double expected = double{kBlocks} * Mixture::kBlock / 32;
  double chi_squared = 0;
  for (const int c : count) chi_squared += (c - expected) * (c - expected) / expected;
  EXPECT_LT(chi_squared, 24 + 5 * 6.9);
}

TEST(MixtureTest, PlacesInTheDataBelongToSources) {
  const auto mixture = Three();
  EXPECT_EQ(mixture->samples(), 94);
  for (int64_t index = 0; index < 94; ++index) {
    const int source = index < 50 ? 0 : index < 63 ? 1 : 2;
    EXPECT_EQ(mixture->SourceOf(index), source) << index;
  }
  EXPECT_EQ(mixture->FirstOf(2), 63);
}

TEST(MixtureTest, ASourceWithoutShuffleKeepsTheOrderOfItsFile) {
  const auto mixture = Three();
  Sampler::Options options = OptionsOf(mixture, /*world_size=*/1, /*batch=*/10);
  options.shuffle = false;
  std::map<int, int64_t> next;
  for (const int64_t index : Taken(options, 40)) {
    const int source = mixture->SourceOf(index);
    const int64_t samples = mixture->sources()[static_cast<size_t>(source)].samples;
    ASSERT_EQ(index - mixture->FirstOf(source), next[source]++ % samples);
  }
}

TEST(MixtureTest, AnEpochOfASourceTakesEachOfItsSamplesOnce) {
  for (const bool shuffle : {false, true}) {
    for (const Mixture& one : Mixtures()) {
      const auto mixture = std::make_shared<const Mixture>(one);
      Sampler::Options options = OptionsOf(mixture, /*world_size=*/1, /*batch=*/7);
      options.shuffle = shuffle;
      std::vector<std::set<int64_t>> epochs(one.sources().size());  // The one under way.
      for (const int64_t index : Taken(options, 300)) {
        const auto source = static_cast<size_t>(one.SourceOf(index));
        ASSERT_TRUE(epochs[source].insert(index).second) << "twice in an epoch";
        const auto all = static_cast<size_t>(one.sources()[source].samples);
        if (epochs[source].size() == all) epochs[source].clear();
      }
    }
  }
}

TEST(MixtureTest, AnyNumberOfRanksTakesTheSameInTheSameOrder) {
  const Sampler::Options one = OptionsOf(Three(), /*world_size=*/1, /*batch=*/1);
  const std::vector<int64_t> all = Taken(one, 480);
  for (const int world_size : {1, 2, 3, 4, 5, 8, 24}) {
    for (const int64_t batch : {1, 2, 4}) {
      const Sampler::Options options = OptionsOf(Three(), world_size, batch);
      const int64_t steps = 480 / (world_size * batch);
      std::vector<int64_t> expected(all.begin(), all.begin() + steps * world_size * batch);
      // Those of a step are the next positions, whichever rank has which of them.
      EXPECT_EQ(Taken(options, steps), expected) << world_size << " ranks, batch " << batch;
    }
  }
}

TEST(MixtureTest, GoesOnFromAnyStepWithOtherRanksAsIfNothingHadHappened) {
  const std::vector<int64_t> all = Taken(OptionsOf(Three(), 1, 1), 600);
  const Sampler::Options before = OptionsOf(Three(), /*world_size=*/3, /*batch=*/4);
  for (int64_t cut = 0; cut <= 30; ++cut) {
    Sampler first(before);
    for (int64_t step = 0; step < cut; ++step) first.Skip();
    ASSERT_EQ(first.position(), (DataPosition{0, cut * 12}));
    for (const int world_size : {1, 2, 5}) {
      const Sampler::Options after = OptionsOf(Three(), world_size, /*batch=*/3);
      const std::vector<int64_t> rest = Taken(after, 10, first.position());
      const auto from = all.begin() + cut * 12;
      EXPECT_EQ(rest, (std::vector<int64_t>(from, from + static_cast<int64_t>(rest.size()))))
          << world_size << " ranks from step " << cut;
    }
  }
}

TEST(MixtureTest, APositionOfOtherDataCountsFromItsOffset) {
  const Sampler::Options options = OptionsOf(Three(), /*world_size=*/2, /*batch=*/3);
  EXPECT_EQ(Taken(options, 5, {3, 24}), Taken(options, 5, {0, 24}));
  Sampler sampler(options, {3, 24});
  sampler.Skip();
  EXPECT_EQ(sampler.position(), (DataPosition{3, 30}));
}

}  // namespace
}  // namespace paceline
