#include "slipstream/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace paceline {
namespace {

using testing::ElementsAre;

using Vector = std::vector<float>;

Vector Random(size_t size, int seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::normal_distribution<float> normal;
  Vector vector(size);
  for (float& value : vector) value = normal(random);
  return vector;
}

TEST(CopiesTest, ARebasePutsOwnWorkOnTopOfTheCanonicalModel) {
  const Vector z = {10, 20};
  Vector x = {3, 5};
  Vector ref = {1, 1};
  Vector pub(2);
  Rebase(2, z.data(), x.data(), ref.data(), pub.data());
  EXPECT_THAT(x, ElementsAre(12, 24));
  EXPECT_EQ(ref, z);
  EXPECT_EQ(pub, x);
}

TEST(CopiesTest, WithoutOwnWorkARebaseGivesTheCanonicalModelToTheBit) {
  const Vector z = Random(1000, 1);
  Vector x = Random(1000, 2);
  Vector ref = x;
  Vector pub(1000);
  Rebase(1000, z.data(), x.data(), ref.data(), pub.data());
  EXPECT_EQ(x, z);
}

TEST(CopiesTest, ARebaseInFlightKeepsWhatIsOnTheWire) {
  const Vector z = {10};
  Vector x = {6};  // 3 in flight, 2 unsent.
  Vector ref = {1};
  Vector sent = {4};
  Vector pub(1);
  RebaseInFlight(1, z.data(), x.data(), ref.data(), sent.data(), pub.data());
  EXPECT_THAT(x, ElementsAre(15));
  EXPECT_THAT(sent, ElementsAre(13));
  EXPECT_EQ(ref, z);
  EXPECT_EQ(pub, x);
}

TEST(CopiesTest, AnUpdateIsWhatHasNotBeenSentWithItsSquare) {
  const Vector sent = {4, 1};
  const Vector ref = {1, 5};
  Vector wire(2);
  EXPECT_EQ(FillUpdate(2, sent.data(), ref.data(), wire.data()), 25);
  EXPECT_THAT(wire, ElementsAre(3, -4));
}

TEST(CopiesTest, OneBadValueMakesTheSquareNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Vector sent = {4, bad, 1};
    const Vector ref = {1, 0, 0};
    Vector wire(3);
    EXPECT_FALSE(std::isfinite(FillUpdate(3, sent.data(), ref.data(), wire.data())));
  }
}

TEST(CopiesTest, TheMeanOfTheUpdatesIsAdded) {
  const Vector wire = {8, -4};
  Vector z = {1, 1};
  ApplyUpdates(2, wire.data(), 4, z.data());
  EXPECT_THAT(z, ElementsAre(3, 0));
}

// Two ranks whose sums only have multiples of 16. All values are multiples of 2 below 2^24, so that
// nothing else is rounded. z must have moved by what the ranks have done, minus what is unsent.
TEST(CopiesTest, WhatALossySumLeavesOutStaysUnsent) {
  constexpr size_t kSize = 8;
  std::uniform_int_distribution<int> steps(-50, 50);
  Vector z(kSize, 0), zeros(kSize, 0), done(kSize, 0);
  std::vector<Vector> x(2, zeros), ref(2, zeros), sent(2, zeros), pub(2, zeros), wire(2, zeros);
  std::mt19937 random(static_cast<std::mt19937::result_type>(zeros.size()));
  for (int round = 0; round < 200; ++round) {
    Vector sum(kSize, 0);
    for (size_t rank = 0; rank < 2; ++rank) {
      const bool stalls = (round + static_cast<int>(rank)) % 3 == 0;
      for (size_t i = 0; i < kSize; ++i) {
        const auto step = stalls ? 0.0F : static_cast<float>(2 * steps(random));
        x[rank][i] += step;
        done[i] += step;
      }
      sent[rank] = x[rank];
      FillUpdate(kSize, sent[rank].data(), ref[rank].data(), wire[rank].data());
      Vector rest(kSize);
      for (size_t i = 0; i < kSize; ++i) {
        rest[i] = std::fmod(wire[rank][i], 16.0F);
        sum[i] += wire[rank][i] - rest[i];
      }
      TakeOut(kSize, rest.data(), sent[rank].data());
    }
    ApplyUpdates(kSize, sum.data(), 2, z.data());
    for (size_t rank = 0; rank < 2; ++rank) {
      ref[rank] = sent[rank];
      Rebase(kSize, z.data(), x[rank].data(), ref[rank].data(), pub[rank].data());
    }
    for (size_t i = 0; i < kSize; ++i) {
      const float unsent = x[0][i] - ref[0][i] + x[1][i] - ref[1][i];
      ASSERT_EQ(2 * z[i] + unsent, done[i]);
      ASSERT_LT(std::fabs(unsent), 32);
    }
  }
}

// A thousand rounds of corrections leave no trace: x is z again once nothing is unsent. If ref and
// x were corrected by separate sums, they would have drifted apart.
TEST(CopiesTest, RoundingDoesNotAddUpOverRounds) {
  constexpr size_t kSize = 64;
  Vector z = Random(kSize, 1);
  Vector x = z;
  Vector ref = z;
  Vector pub = z;
  Vector wire(kSize);
  for (int round = 0; round < 1000; ++round) {
    const Vector step = Random(kSize, 10 + round);
    for (size_t i = 0; i < kSize; ++i) x[i] += 0.01F * step[i];
    pub = x;
    FillUpdate(kSize, pub.data(), ref.data(), wire.data());
    const Vector others = Random(kSize, 5000 + round);
    for (size_t i = 0; i < kSize; ++i) wire[i] += 0.01F * others[i];
    ApplyUpdates(kSize, wire.data(), 3, z.data());
    ref = pub;
    Rebase(kSize, z.data(), x.data(), ref.data(), pub.data());
    ASSERT_EQ(x, z) << round;
  }
}

}  // namespace
}  // namespace paceline
