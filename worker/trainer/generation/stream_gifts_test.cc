// What a rendezvous does with a streamed average that is under way.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/generation/rendezvous_rank.h"

namespace paceline {
namespace {

// An average begins after each fourth step, and is taken up 2 steps later.
TrainingPlan Streamed() {
  TrainingPlan plan;
  plan.version = 1;
  plan.levels.push_back({4, {4}});
  plan.levels[0].outer = OuterRule();
  plan.levels[0].outer->delay = 2;
  return plan;
}

at::Tensor Three(float value) { return at::full({3}, value, at::kFloat); }

// The rank has taken up the average of step 4; what it has given to that of step 8 is its number.
// Of its rounding errors those of its changes are 7 before it and 8 afterwards.
void Begin(RendezvousRank& rank) {
  rank.SetReference(1, 2);
  StrategyMemory::Level& level = rank.state.memory.levels[0];
  level.momentum = Three(2);
  level.stream.position = {8, 8, 4};
  level.stream.sent = at::full({6}, rank.config.rank(), at::kFloat);
  level.before = {Three(7), Three(0)};
  level.residuals = {Three(8), Three(0)};
}

// It has taken that up, too.
void TakeUp(RendezvousRank& rank) {
  StrategyMemory::Level& level = rank.state.memory.levels[0];
  level.reference = Three(5);
  level.momentum = Three(6);
  level.stream.position = {8, -1, 8};
  level.stream.sent = at::Tensor();
  level.before.reset();
  rank.Set(3);
}

TEST(StreamGiftsTest, ANewcomerGivesToTheAverageWhatItsSourceDid) {
  RunRendezvousOfAll(
      4, Streamed(),
      [](RendezvousRank& rank) {
        Begin(rank);
        if (rank.config.rank() == 1) rank.Forget();
      },
      [](RendezvousRank& rank) {
        EXPECT_FALSE(rank.state.regrouped);
        const std::vector<StrategyMemory::Level>& levels = rank.state.memory.levels;
        ASSERT_EQ(levels.size(), 1u);
        EXPECT_EQ(levels[0].stream.position, (StreamPosition{8, 8, 4}));
        const int number = rank.config.rank() == 1 ? 0 : rank.config.rank();
        EXPECT_TRUE(levels[0].stream.sent.equal(at::full({6}, number, at::kFloat)));
        const at::Tensor& own = levels[0].residuals_to_send().own;
        if (rank.config.rank() == 1) {
          EXPECT_FALSE(own.defined()) << "errors are a rank's own";
        } else {
          EXPECT_TRUE(own.equal(Three(7)));
        }
      });
}

TEST(StreamGiftsTest, WhoHasNotTakenItUpGetsItsResult) {
  RunRendezvousOfAll(
      4, Streamed(),
      [](RendezvousRank& rank) {
        Begin(rank);
        if (rank.config.rank() != 3) TakeUp(rank);
      },
      [](RendezvousRank& rank) {
        EXPECT_FALSE(rank.state.regrouped);
        const StrategyMemory::Level& level = rank.state.memory.levels[0];
        EXPECT_TRUE(level.reference.equal(Three(5)));
        EXPECT_TRUE(level.momentum.equal(Three(6)));
        EXPECT_FALSE(level.stream.sent.defined());
        const bool gets = rank.config.rank() == 3;
        const StreamPosition at_its_step{8, 8, 8};
        EXPECT_EQ(level.stream.position, gets ? at_its_step : (StreamPosition{8, -1, 8}));
        EXPECT_EQ(rank.value(), gets ? 0 : 3);
        EXPECT_TRUE(level.residuals_to_send().own.equal(Three(8))) << "all of it has arrived";
      });
}

// Rank 2 has computed its gradients of step 10, after which the others have taken the average up.
TEST(StreamGiftsTest, WhoGetsAStepHasTakenUpWhatItsSourceHas) {
  RunRendezvousOfAll(
      4, Streamed(),
      [](RendezvousRank& rank) {
        Begin(rank);
        if (rank.config.rank() == 2) return rank.Compute();
        TakeUp(rank);
        rank.state.position.step = 11;
      },
      [](RendezvousRank& rank) {
        const StrategyMemory::Level& level = rank.state.memory.levels[0];
        EXPECT_EQ(rank.state.position.step, 11);
        EXPECT_EQ(rank.value(), 3);
        EXPECT_TRUE(level.reference.equal(Three(5)));
        EXPECT_EQ(level.stream.position, (StreamPosition{8, -1, 8}));
        EXPECT_FALSE(level.stream.sent.defined());
        EXPECT_TRUE(level.residuals_to_send().own.equal(Three(8)));
      });
}

TEST(StreamGiftsTest, WhatOneRankHasDroppedAllDrop) {
  RunRendezvousOfAll(
      4, Streamed(),
      [](RendezvousRank& rank) {
        Begin(rank);
        if (rank.config.rank() > 0) return;
        StreamMemory& stream = rank.state.memory.levels[0].stream;
        stream.position.begun = -1;
        stream.sent = at::Tensor();
      },
      [](RendezvousRank& rank) {
        const StreamMemory& stream = rank.state.memory.levels[0].stream;
        EXPECT_EQ(stream.position, (StreamPosition{8, -1, 4}));
        EXPECT_FALSE(stream.sent.defined());
        EXPECT_TRUE(rank.state.memory.levels[0].residuals_to_send().own.equal(Three(7)));
      });
}

// Rank 3 has another point than the others, and takes nobody's.
TEST(StreamGiftsTest, OtherGroupsDropTheAverage) {
  RunRendezvousOfAll(
      4, Streamed(),
      [](RendezvousRank& rank) {
        Begin(rank);
        if (rank.config.rank() == 3) rank.state.memory.levels[0].reference_number = 7;
      },
      [](RendezvousRank& rank) {
        EXPECT_TRUE(rank.state.regrouped);
        const std::vector<StrategyMemory::Level>& levels = rank.state.memory.levels;
        ASSERT_EQ(levels.size(), 1u);
        EXPECT_TRUE(levels[0].momentum.equal(Three(2)));
        EXPECT_EQ(levels[0].stream.position, StreamPosition());
        EXPECT_FALSE(levels[0].stream.sent.defined());
      });
}

}  // namespace
}  // namespace paceline
