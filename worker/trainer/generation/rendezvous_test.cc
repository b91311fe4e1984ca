// Ranks meet with the states that losses at certain moments leave.
#include "worker/trainer/generation/rendezvous.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <vector>

#include "worker/trainer/comm/testing/rank_threads.h"
#include "worker/trainer/generation/hand_over.h"
#include "worker/trainer/generation/rendezvous_rank.h"
#include "worker/trainer/generation/rendezvous_rows.h"

namespace paceline {
namespace {

TrainingPlan Pairs(WireFormat format = WireFormat::kFp32) {
  TrainingPlan plan;
  plan.version = 1;
  plan.levels = {{2, {2, 2}, format}, {4, {4}, format}};
  return plan;
}

TEST(RendezvousTest, WhoTakesAStepHasItsDataAndTheNewcomerTheSame) {
  RunRendezvousOfAll(
      3, TrainingPlan(),
      [](RendezvousRank& rank) {
        rank.Set(1);
        if (rank.config.rank() == 0) rank.Compute();
        if (rank.config.rank() == 1) {
          rank.Set(2);
          rank.state.position.step = 11;
          rank.state.data = {0, 201};
          rank.state.memory.all_equal = true;
          rank.state.is_open = true;
          rank.state.open_result.grad_norm = at::full({}, 0.5F, at::kFloat);
        }
        if (rank.config.rank() == 2) rank.Forget();
      },
      [](RendezvousRank& rank) {
        const TrainingState& state = rank.state;
        EXPECT_EQ(rank.value(), 2);
        EXPECT_EQ(state.position.step, 11);
        EXPECT_FALSE(state.position.computed);
        EXPECT_FALSE(state.in_step);
        EXPECT_TRUE(state.memory.all_equal) << "as after the step";
        // The newcomer has copied rank 0.
        EXPECT_EQ(state.data, (DataPosition{0, rank.config.rank() == 1 ? 201 : 200}));
        if (rank.config.rank() == 0) {
          EXPECT_EQ(state.open_result.grad_norm.item<float>(), 0.5F);
        }
      });
}

TEST(RendezvousTest, AStepThatIsTakenBackIsRepeatedWithItsData) {
  RunRendezvousOfAll(
      3, TrainingPlan(),
      [](RendezvousRank& rank) {
        rank.Set(1);
        rank.Compute();
        if (rank.config.rank() == 2) rank.Forget();
      },
      [](RendezvousRank& rank) {
        EXPECT_EQ(rank.state.position.step, 10);
        EXPECT_FALSE(rank.state.is_open);
        EXPECT_EQ(rank.state.data, (DataPosition{0, rank.config.rank() == 1 ? 101 : 100}));
      });
}

// Ranks 0 and 1 share gradients. Rank 1 did the step and was cut off in an exchange that ranks 2
// and 3 completed; rank 0 had only computed its gradients.
TEST(RendezvousTest, AStepAndThenItsMeanAreTaken) {
  TrainingPlan plan;
  plan.version = 1;
  plan.levels = {{2, {4, 2}}, {4, {6}}};
  RunRendezvousOfAll(
      6, plan,
      [](RendezvousRank& rank) {
        const int number = rank.config.rank();
        rank.Set(static_cast<float>(number));
        rank.state.position.gradients = {number / 2 * 2, 2};
        if (number > 3) return;
        if (number == 0) return rank.Compute();
        rank.state.position.step = 11;
        if (number == 1) return rank.Cut({0, 4});
        rank.SetMean(7, 11);
      },
      [](RendezvousRank& rank) {
        if (rank.config.rank() > 1) return;
        EXPECT_EQ(rank.state.position.step, 11);
        EXPECT_TRUE(rank.state.position.exchanged);
        EXPECT_EQ(rank.value(), 7);
        EXPECT_EQ(rank.state.memory.equal.first, 0);
        EXPECT_EQ(rank.state.memory.equal.size, 4) << "those of the exchange, not all";
        EXPECT_EQ(rank.state.memory.mean_step, 11) << "others may ask for it";
      });
}

TEST(RendezvousTest, WhoTakesAMeanOfCompensatedWeightsHasAllOfIt) {
  constexpr float kMean = 1 + 0x1p-10F;  // In bfloat16 it is 1.
  OptimizerConfig compensated;
  compensated.compensated = true;
  RunRendezvousOfAll(
      4, Pairs(),
      [](RendezvousRank& rank) {
        rank.Set(5);
        if (rank.config.rank() == 3) return rank.Cut({0, 4});
        rank.SetMean(kMean, 10);
      },
      [](RendezvousRank& rank) {
        if (rank.config.rank() != 3) return;
        EXPECT_EQ(rank.value(), 1);
        EXPECT_EQ(CompensationOf(*rank.optimizer)[0][0].item<float>(), 0x1p-10F);
      },
      /*shards=*/1, compensated);
}

// In a warm-up, ranks sometimes exchange figures only; an old mean is not part of that exchange.
TEST(RendezvousTest, AnExchangeOfFiguresGivesNoParameters) {
  RunRendezvousOfAll(
      4, Pairs(),
      [](RendezvousRank& rank) {
        rank.Set(5);
        if (rank.config.rank() == 0) return rank.Cut({0, 4});
        rank.SetMean(3, 4);
      },
      [](RendezvousRank& rank) {
        EXPECT_EQ(rank.value(), 5);
        EXPECT_TRUE(rank.state.position.exchanged);
        EXPECT_EQ(rank.state.memory.equal.size, 0);
      });
}

TEST(RendezvousTest, ANewcomerRefersToWhatItsGroupRefersTo) {
  RunRendezvousOfAll(
      4, Pairs(WireFormat::kInt8),
      [](RendezvousRank& rank) {
        for (const int64_t number : {4, 2}) rank.SetReference(static_cast<float>(number), number);
        if (rank.config.rank() == 1) rank.Forget();
      },
      [](RendezvousRank& rank) {
        EXPECT_FALSE(rank.state.regrouped);
        ASSERT_GE(rank.state.memory.levels.size(), 2u);
        for (const size_t level : {0, 1}) {
          const StrategyMemory::Level& one = rank.state.memory.levels[level];
          EXPECT_EQ(one.reference_number, level == 0 ? 4 : 2);
          EXPECT_EQ(one.reference[0].item<float>(), level == 0 ? 4 : 2);
        }
      });
}

// A rank takes the mean of all as its reference; the others have that reference already.
TEST(RendezvousTest, WhoTakesAMeanRefersToItAsTheOthersDo) {
  RunRendezvousOfAll(
      4, Pairs(WireFormat::kInt8),
      [](RendezvousRank& rank) {
        const bool cut = rank.config.rank() == 3;
        for (const int64_t number : {4, 2}) rank.SetReference(0, cut ? number : number + 1);
        if (cut) return rank.Cut({0, 4});
        rank.SetMean(7, 10);
      },
      [](RendezvousRank& rank) {
        EXPECT_FALSE(rank.state.regrouped);
        EXPECT_EQ(rank.state.memory.equal.size, rank.config.rank() == 3 ? 4 : 0);
      });
}

// Ranks 0 and 1 have had another mean since: rank 3 would refer to it, rank 2 to the one before.
TEST(RendezvousTest, WithoutACommonReferenceTheRanksAverageFirst) {
  RunRendezvousOfAll(
      4, Pairs(WireFormat::kInt8),
      [](RendezvousRank& rank) {
        const bool cut = rank.config.rank() == 3;
        for (const int64_t number : {4, 2}) rank.SetReference(0, cut ? number : number + 1);
        if (cut) return rank.Cut({0, 4});
        rank.SetMean(7, rank.config.rank() < 2 ? 12 : 10);
        if (rank.config.rank() < 2) rank.state.position.step = 12;
      },
      [](RendezvousRank& rank) {
        EXPECT_TRUE(rank.state.regrouped);
        EXPECT_TRUE(rank.state.memory.levels.empty());
        EXPECT_EQ(rank.state.position.alone_below, 12);
        EXPECT_EQ(rank.state.position.layout, 0u) << "also when this rendezvous fails at its end";
      });
}

// Rank 0 leaves, and rank 1 takes its place.
TEST(RendezvousTest, WhoTakesAStateOverHasItsRoundingErrorsToo) {
  TrainerConfig job;
  job.member.world_size = 2;
  job.startup_timeout = absl::Seconds(20);
  const TrainingPlan plan = Pairs(WireFormat::kInt8);
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    RendezvousRank rank(config, plan);
    std::vector<StrategyMemory::Level>& levels = rank.state.memory.levels;
    const at::Tensor own = at::full({1024}, 0.25F, at::kFloat);
    const at::Tensor mean = at::full({512}, -0.5F, at::kFloat);
    if (config.rank() == 0) {
      levels.emplace_back();  // Sends fp32.
      rank.SetReference(/*value=*/3, /*number=*/2);
      levels[1].residuals = {own, mean};
      levels[1].momentum = at::full({3}, 5, at::kFloat);
      return HandStateOver(groups.all(), rank.AsRendezvous(groups), rank.state);
    }
    rank.Forget();
    const absl::Status taken = TakeStateOver(groups.all(), rank.AsRendezvous(groups), rank.state);
    ASSERT_TRUE(taken.ok()) << taken;
    ASSERT_EQ(levels.size(), 2U);
    EXPECT_FALSE(levels[0].residuals.own.defined());
    EXPECT_TRUE(levels[1].momentum.equal(at::full({3}, 5, at::kFloat)));
    EXPECT_EQ(levels[1].reference_number, 2);
    ASSERT_TRUE(levels[1].residuals.own.defined());
    EXPECT_TRUE(levels[1].residuals.own.equal(own));
    EXPECT_TRUE(levels[1].residuals.mean.equal(mean));
  });
}

// Rank 2, without a state, is lost after its report.
TEST(RendezvousTest, AStepThatWasTakenIsDoneAlsoIfTheRendezvousFails) {
  TrainerConfig job;
  job.member.world_size = 3;
  job.member.generation = 2;
  job.startup_timeout = absl::Seconds(20);
  const TrainingPlan plan;
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    RendezvousRank rank(config, plan);
    rank.Set(1);
    if (config.rank() == 2) {
      rank.Forget();
      GatherRows(rank.AsRendezvous(groups), rank.state);
      return;
    }
    if (config.rank() == 0) rank.Compute();
    if (config.rank() == 1) {
      rank.Set(2);
      rank.state.position.step = 11;
    }
    EXPECT_THROW(RunRendezvous(rank.AsRendezvous(groups), rank.state).status().IgnoreError(),
                 CollectiveError);
    EXPECT_EQ(rank.value(), 2);
    EXPECT_EQ(rank.state.position.step, 11);
    EXPECT_FALSE(rank.state.position.computed);
  });
}

// Rank 1 has done the step; its word told it that the norm of all gradients is 6.
void ArrangeStepOfAll(RendezvousRank& rank) {
  rank.Set(1);
  if (rank.config.rank() == 1) {
    rank.Set(2);
    rank.state.position.step = 11;
    rank.state.data = {0, 201};
    rank.state.word_norm = 6;
  } else if (rank.config.rank() == 3) {
    rank.Forget();
  } else if (rank.config.rank() == 0) {
    rank.Prepare(3);
  } else {
    rank.Prepare(3.F / 6);
    rank.state.max_norm = 0;  // It had the word of all, and has clipped them to 1.
  }
}

TEST(RendezvousTest, WithShardsWhoIsPreparedAppliesItsOwnGradients) {
  RunRendezvousOfAll(
      4, TrainingPlan(), ArrangeStepOfAll,
      [](RendezvousRank& rank) {
        const TrainingState& state = rank.state;
        const bool prepared = rank.config.rank() == 0 || rank.config.rank() == 2;
        EXPECT_FLOAT_EQ(rank.value(), prepared ? 1 - 3.F / 6 : 2) << "clipped to 1, once";
        EXPECT_EQ(state.position.step, 11);
        EXPECT_FALSE(state.position.prepared);
        EXPECT_FALSE(state.in_step);
        EXPECT_EQ(state.position.decided, 2);
        EXPECT_EQ(state.data, (DataPosition{0, prepared ? 200 + rank.config.rank() : 201}));
        if (prepared) {
          EXPECT_FALSE(rank.weight().grad().defined());
          EXPECT_EQ(state.open_result.grad_norm.item<float>(), 6);
        }
      },
      /*shards=*/2);
}

TEST(RendezvousTest, WithShardsAPreparedStepThatNobodyDidIsRepeated) {
  RunRendezvousOfAll(
      4, TrainingPlan(),
      [](RendezvousRank& rank) {
        rank.Set(1);
        if (rank.config.rank() < 3) return rank.Prepare(3);
        rank.Forget();
      },
      [](RendezvousRank& rank) {
        const int source = rank.config.rank() == 3 ? 1 : rank.config.rank();
        EXPECT_EQ(rank.value(), 1);
        EXPECT_EQ(rank.state.position.step, 10);
        EXPECT_FALSE(rank.state.position.prepared);
        EXPECT_FALSE(rank.weight().grad().defined());
        EXPECT_EQ(rank.state.data, (DataPosition{0, 100 + source}));
      },
      /*shards=*/2);
}

// Rank 1 has applied the mean of its lane: of an exchange after the step, or of the last one.
TEST(RendezvousTest, WithShardsWhoIsPreparedForAMeanAppliesItsOwn) {
  TrainingPlan plan;
  plan.version = 1;
  plan.levels.push_back({2, {2}, WireFormat::kFp32});
  for (const bool last : {false, true}) {
    RunRendezvousOfAll(
        4, plan,
        [last](RendezvousRank& rank) {
          const float mean = rank.config.rank() % 2 == 0 ? 5 : 7;
          rank.Set(rank.config.rank() == 1 ? mean : 1);
          rank.SetMean(mean, 10);
          RankPosition& position = rank.state.position;
          position.exchange = {0, 4};
          if (rank.config.rank() == 1) {
            position.final_mean = last;
            position.means = last ? 1 : 0;
          } else {
            position.mean_prepared = true;
            position.exchanged = last;
          }
        },
        [last](RendezvousRank& rank) {
          const RankPosition& position = rank.state.position;
          EXPECT_EQ(rank.value(), rank.config.rank() % 2 == 0 ? 5 : 7);
          EXPECT_TRUE(position.exchanged);
          EXPECT_EQ(position.final_mean, last);
          EXPECT_EQ(position.means, last ? 1 : 0);
          EXPECT_FALSE(position.mean_prepared);
          EXPECT_EQ(rank.state.memory.equal.size, rank.config.rank() == 1 ? 0 : 4);
        },
        /*shards=*/2);
  }
}

// Rank 1 has applied an exchange as int8, and refers to the mean; the others will.
TEST(RendezvousTest, WithShardsWhoIsPreparedForAnInt8MeanRefersToItAsTheOthersDo) {
  TrainingPlan plan;
  plan.version = 1;
  plan.levels = {{2, {1, 1}}, {4, {2}, WireFormat::kInt8}};
  RunRendezvousOfAll(
      4, plan,
      [](RendezvousRank& rank) {
        const float mean = rank.config.rank() % 2 == 0 ? 5 : 7;
        const bool applied = rank.config.rank() == 1;
        rank.Set(applied ? mean : 1);
        rank.SetMean(mean, 10);
        rank.state.memory.levels.emplace_back();  // Sends fp32.
        rank.SetReference(applied ? mean : 1, applied ? 3 : 2);
        if (applied) return;
        rank.Cut({0, 4});
        rank.state.position.mean_prepared = true;
        rank.state.memory.levels.back().before.emplace();
      },
      [](RendezvousRank& rank) {
        EXPECT_EQ(rank.value(), rank.config.rank() % 2 == 0 ? 5 : 7);
        EXPECT_FALSE(rank.state.regrouped);
        ASSERT_EQ(rank.state.memory.levels.size(), 2u);
        EXPECT_FALSE(rank.state.memory.levels[1].before.has_value()) << "what it sent has arrived";
        EXPECT_EQ(rank.state.memory.equal.size, rank.config.rank() == 1 ? 0 : 4);
      },
      /*shards=*/2);
}

// All replicas share gradients, so rank 6 gets its part from the first of its lane, which averages
// with others and refers to their mean.
TEST(RendezvousTest, WithShardsAPartOfAnotherInt8GroupMakesTheRanksAverageFirst) {
  for (const int lost : {2, 6}) {
    TrainingPlan plan;
    plan.version = 1;
    plan.levels = {{2, {2, 2}, WireFormat::kInt8}, {4, {4}}};
    plan.gradient_groups = {4};
    RunRendezvousOfAll(
        8, plan,
        [lost](RendezvousRank& rank) {
          rank.state.position.peers = {0, 8};
          rank.SetReference(rank.config.rank() < 4 ? 5 : 7, 2);
          if (rank.config.rank() == lost) rank.Forget();
        },
        [lost](RendezvousRank& rank) { EXPECT_EQ(rank.state.regrouped, lost == 6); }, /*shards=*/2);
  }
}

// Rank 3, without a state, is lost after its report.
TEST(RendezvousTest, WithShardsADecisionCountsAlsoIfTheRendezvousFails) {
  TrainerConfig job;
  job.member.world_size = 4;
  job.member.shards = 2;
  job.member.generation = 2;
  job.startup_timeout = absl::Seconds(20);
  const TrainingPlan plan;
  RunRanks(job, [&](const TrainerConfig& config, Groups& groups) {
    RendezvousRank rank(config, plan);
    ArrangeStepOfAll(rank);
    if (config.rank() == 3) {
      GatherRows(rank.AsRendezvous(groups), rank.state);
      return;
    }
    EXPECT_THROW(RunRendezvous(rank.AsRendezvous(groups), rank.state).status().IgnoreError(),
                 CollectiveError);
    EXPECT_EQ(rank.state.position.step, 11);
    EXPECT_EQ(rank.state.position.decided, 2);
    EXPECT_EQ(rank.state.position.generation, 1);
  });
}

TEST(RendezvousTest, ASaveThatIsDueOnSomeRanksIsDueOnAll) {
  RunRendezvousOfAll(
      4, Pairs(),
      [](RendezvousRank& rank) {
        rank.state.saver.by_steps = {/*due=*/rank.config.rank() == 1, /*counted=*/10};
      },
      [](RendezvousRank& rank) {
        EXPECT_TRUE(rank.state.saver.by_steps.due);
        EXPECT_EQ(rank.state.saver.by_steps.counted, 10);
      });
}

// The others made it after the step in which rank 2 was cut off.
TEST(RendezvousTest, ASaveThatTheCallerHasAskedForIsDueOnAll) {
  RunRendezvousOfAll(
      4, Pairs(),
      [](RendezvousRank& rank) {
        rank.state.saver.by_steps.counted = 10;
        rank.state.saver.asked = rank.config.rank() == 2;
      },
      [](RendezvousRank& rank) {
        EXPECT_TRUE(rank.state.saver.by_steps.due);
        EXPECT_FALSE(rank.state.saver.asked) << "it would save again, alone";
      });
}

}  // namespace
}  // namespace paceline
