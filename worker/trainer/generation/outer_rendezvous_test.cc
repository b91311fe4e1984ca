// What a rendezvous does with the momenta of outer steps.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/generation/rendezvous_rank.h"

namespace paceline {
namespace {

TrainingPlan Pairs() {
  TrainingPlan plan;
  plan.version = 1;
  plan.levels = {{2, {2, 2}}, {4, {4}}};
  plan.levels[1].outer = OuterRule();
  return plan;
}

// Two levels, the last one with outer steps; the momentum of that one is `momentum`.
void SetOuterLevels(RendezvousRank& rank, int64_t number, float momentum) {
  rank.SetReference(1, number);
  rank.SetReference(2, number);
  rank.state.memory.levels[1].momentum = at::full({3}, momentum, at::kFloat);
}

TEST(OuterRendezvousTest, ANewcomerHasTheMomentumOfItsGroup) {
  RunRendezvousOfAll(
      4, Pairs(),
      [](RendezvousRank& rank) {
        SetOuterLevels(rank, 4, 7);
        if (rank.config.rank() == 1) rank.Forget();
      },
      [](RendezvousRank& rank) {
        EXPECT_FALSE(rank.state.regrouped);
        const std::vector<StrategyMemory::Level>& levels = rank.state.memory.levels;
        ASSERT_EQ(levels.size(), 2u);
        EXPECT_FALSE(levels[0].momentum.defined());
        EXPECT_EQ(levels[1].reference_number, 4);
        EXPECT_TRUE(levels[1].momentum.equal(at::full({3}, 7, at::kFloat)));
      });
}

TEST(OuterRendezvousTest, WhoTakesAMeanHasTheMomentumOfItsOuterStep) {
  RunRendezvousOfAll(
      4, Pairs(),
      [](RendezvousRank& rank) {
        const bool cut = rank.config.rank() == 3;
        SetOuterLevels(rank, cut ? 4 : 5, cut ? 1 : 6);
        if (cut) return rank.Cut({0, 4});
        rank.SetMean(7, 10);
        rank.state.memory.mean_outer = 1;
        rank.state.memory.mean_momentum = at::full({3}, 6, at::kFloat);
      },
      [](RendezvousRank& rank) {
        EXPECT_FALSE(rank.state.regrouped);
        const StrategyMemory& memory = rank.state.memory;
        EXPECT_TRUE(memory.levels[1].momentum.equal(at::full({3}, 6, at::kFloat)));
        EXPECT_EQ(memory.mean_outer, 1) << "others may ask for it";
        if (rank.config.rank() == 3) {
          EXPECT_EQ(rank.value(), 7);
        }
        EXPECT_EQ(memory.equal.size, rank.config.rank() == 3 ? 4 : 0);
      });
}

// Rank 3 has another reference than the others, and takes nobody's.
TEST(OuterRendezvousTest, OtherGroupsKeepTheMomentumOfTheLastLevel) {
  RunRendezvousOfAll(
      4, Pairs(),
      [](RendezvousRank& rank) {
        const int number = rank.config.rank();
        SetOuterLevels(rank, number == 3 ? 4 : 5, static_cast<float>(number));
      },
      [](RendezvousRank& rank) {
        EXPECT_TRUE(rank.state.regrouped);
        const std::vector<StrategyMemory::Level>& levels = rank.state.memory.levels;
        ASSERT_EQ(levels.size(), 1u);
        EXPECT_FALSE(levels[0].reference.defined());
        EXPECT_EQ(levels[0].momentum[0].item<float>(), rank.config.rank());
      });
}

}  // namespace
}  // namespace paceline
