#include "controller/core/stragglers/ladder/ladder_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Ladder kPublished = {
    {2, LadderScope::kSize, 8}, {4, LadderScope::kSize, 32}, {8, LadderScope::kAll, 0}};

// A job that trains synchronously, on nodes of one rank, after its warm-up.
LadderInputs InputsOf(OwnTimes times, double average_s = 1e-4) {
  LadderInputs inputs;
  inputs.homes = Homes(times.ranks, 1, times.ranks);
  inputs.times = std::move(times);
  inputs.costs.Add(inputs.times.ranks, average_s);
  inputs.step = 5000;
  inputs.steps = 20000;
  return inputs;
}

TEST(LadderPlannerTest, RandomStallsGetALadder) {
  const LadderPlan plan = PlanLadder(InputsOf(Draw(Stalling(64, 0.02))));
  ASSERT_EQ(plan.advice, LadderAdvice::kChange) << plan.reason;
  EXPECT_FALSE(plan.ladder.empty());
  EXPECT_GT(plan.synchronous.step_s / plan.step_s, 2);
  EXPECT_GT(plan.speedup_low, 1.5);
  EXPECT_LT(plan.speedup_low, plan.synchronous.step_s / plan.step_s);
  EXPECT_NEAR(plan.stalls.stall_share, 0.02, 0.003);
  EXPECT_THAT(plan.reason, HasSubstr("2.1 % of the steps of a rank stall, by 1 s"));
  EXPECT_THAT(plan.reason, HasSubstr(DescribeLadder(plan.ladder)));
}

TEST(LadderPlannerTest, SpeedupIsWhatThePublishedLadderHasInTheTable) {
  LadderInputs inputs = InputsOf(Draw(Stalling(64, 0.02)), 0);
  inputs.current = kPublished;
  const LadderPlan plan = PlanLadder(inputs);
  EXPECT_NEAR(plan.current.speedup, 1.90, 0.1);
  EXPECT_EQ(plan.current.ladder, kPublished);
}

TEST(LadderPlannerTest, PersistentStragglerGetsNone) {
  for (const double slowdown : {1.1, 1.2, 1.5, 2.0}) {
    const LadderPlan plan = PlanLadder(InputsOf(Draw(Slowed(5, slowdown)), 0));
    EXPECT_EQ(plan.advice, LadderAdvice::kKeep) << plan.reason;
    EXPECT_THAT(plan.ladder, IsEmpty());
    ASSERT_FALSE(plan.candidates.empty());
    for (const auto& candidate : plan.candidates) EXPECT_NEAR(candidate.speedup, 1, 1e-9);
    if (slowdown > 1.1) {
      EXPECT_THAT(plan.reason, HasSubstr("all wait for rank 5"));
    }
  }
}

TEST(LadderPlannerTest, NoGainWhereAStallIsInEachGroup) {
  for (const int ranks : {64, 256}) {
    LadderInputs inputs = InputsOf(Draw(Stalling(ranks, 0.3)), 0);
    inputs.gradient_groups = Equal(ranks, 4);
    LadderOptions of_any_share;
    of_any_share.max_stall_share = 1;
    const LadderPlan plan = PlanLadder(inputs, of_any_share);
    EXPECT_EQ(plan.advice, LadderAdvice::kKeep);
    EXPECT_LT(plan.candidates.front().speedup, 1.05);
  }
}

TEST(LadderPlannerTest, FrequentStallsGetNoLadder) {
  for (const int ranks : {8, 64}) {
    const LadderPlan plan = PlanLadder(InputsOf(Draw(Stalling(ranks, 0.3))));
    EXPECT_EQ(plan.advice, LadderAdvice::kKeep);
    EXPECT_THAT(plan.reason, HasSubstr("too often"));
    EXPECT_GT(plan.candidates.front().speedup, 1.10);
    EXPECT_EQ(PlanLadder(InputsOf(Draw(Stalling(ranks, 0.2)))).advice, LadderAdvice::kChange);
  }
}

TEST(LadderPlannerTest, NoGainWhereStallsCostLessThanATenth) {
  EXPECT_EQ(PlanLadder(InputsOf(Draw(Stalling(64, 0.02, 0.055 / 10)), 0)).advice,
            LadderAdvice::kKeep);
  EXPECT_EQ(PlanLadder(InputsOf(Draw(Stalling(8, 0.0005)), 0)).advice, LadderAdvice::kKeep);
  EXPECT_EQ(PlanLadder(InputsOf(Draw(Stalling(64, 0)), 0)).advice, LadderAdvice::kKeep);
}

TEST(LadderPlannerTest, ALadderWithAnOuterStepStays) {
  for (const double share : {0.0, 0.02}) {
    LadderInputs inputs = InputsOf(Draw(Stalling(64, share)));
    inputs.current = {{1, LadderScope::kAll, 0}};
    EXPECT_NE(PlanLadder(inputs).advice, LadderAdvice::kKeep) << share;
    inputs.current = {{1, LadderScope::kAll, 0, /*outer=*/true}};
    const LadderPlan plan = PlanLadder(inputs);
    EXPECT_EQ(plan.advice, LadderAdvice::kKeep) << share;
    EXPECT_EQ(plan.ladder, inputs.current);
    EXPECT_THAT(plan.reason, HasSubstr("has an outer step"));
  }
}

TEST(LadderPlannerTest, NoGainFromStallsOfAllRanksAtOnce) {
  OwnTimes times = Draw(Stalling(64, 0));
  for (size_t step = 0; step < 1000; step += 10) std::fill_n(&times.seconds[step * 64], 64, 1.0F);
  EXPECT_EQ(PlanLadder(InputsOf(std::move(times)), {}).advice, LadderAdvice::kKeep);
}

TEST(LadderPlannerTest, StallsOfANodesRanksCountOnce) {
  // The ranks of each node of 8 stall together, and count as 8 single ranks would.
  const OwnTimes nodes = Draw(Stalling(8, 0.05));
  OwnTimes ranks{64, nodes.steps, {}};
  for (const float own : nodes.seconds) {
    for (int i = 0; i < 8; ++i) ranks.seconds.push_back(own);
  }
  LadderInputs inputs = InputsOf(std::move(ranks), 0);
  inputs.homes = Homes(64, 8, 64);
  inputs.current = {{4, LadderScope::kAll, 0}};
  const LadderPlan joint = PlanLadder(inputs);
  LadderInputs single = InputsOf(nodes, 0);
  single.current = inputs.current;
  const LadderPlan alone = PlanLadder(single);
  EXPECT_NEAR(joint.current.step_s, alone.current.step_s, 1e-9);
  EXPECT_LT(joint.current.speedup, PlanLadder([&] {
                                     LadderInputs independent =
                                         InputsOf(Draw(Stalling(64, 0.05)), 0);
                                     independent.current = inputs.current;
                                     return independent;
                                   }())
                                       .current.speedup);
}

TEST(LadderPlannerTest, DearAveragesMakeNarrowOrSeldomOnesBetter) {
  const OwnTimes times = Draw(Stalling(64, 0.02));
  LadderInputs dear = InputsOf(times, 20);  // A stall is nothing compared with it.
  EXPECT_EQ(PlanLadder(dear).advice, LadderAdvice::kKeep);

  dear.gradient_exchange_s = 20;  // Synchronous steps cost as much.
  const LadderPlan plan = PlanLadder(dear);
  EXPECT_EQ(plan.advice, LadderAdvice::kChange);
  EXPECT_GE(plan.ladder.back().period, 4);
}

TEST(LadderPlannerTest, CommunicationIsThatOfTheLevelThatAverages) {
  LadderInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  inputs.costs = {};
  inputs.costs.Add(8, 0.008);
  inputs.costs.Add(32, 0.032);
  inputs.costs.Add(64, 0.064);
  inputs.current = kPublished;
  // Of 8 steps, 2 average narrowly, 1 more widely, and 1 over all.
  EXPECT_NEAR(PlanLadder(inputs).current.communication_s, (2 * 0.008 + 0.032 + 0.064) / 8, 1e-12);
  inputs.gradient_groups = Equal(64, 8);
  inputs.gradient_exchange_s = 0.02;
  EXPECT_NEAR(PlanLadder(inputs).current.communication_s,
              (2 * 0.008 + 0.032 + 0.064) / 8 + 0.02 * 0.008 / 0.064, 1e-12);
}

TEST(LadderPlannerTest, DriftIsBounded) {
  const LadderPlan plan = PlanLadder(InputsOf(Draw(Stalling(64, 0.02))));
  LadderOptions free;
  free.max_equivalent_period = 8;
  const LadderPlan unbounded = PlanLadder(InputsOf(Draw(Stalling(64, 0.02))), free);
  EXPECT_EQ(DescribeLadder(unbounded.ladder), "8:all") << "the fastest";
  EXPECT_LT(unbounded.step_s, 0.85 * plan.step_s);
  for (const auto& candidate : plan.candidates) EXPECT_LE(candidate.equivalent_period, 4.25);
}

struct Published {
  int ranks;
  double share;
  std::vector<std::pair<int64_t, int>> inner;

  Ladder ladder() const {
    Ladder ladder;
    for (const auto& [period, size] : inner) ladder.push_back({period, LadderScope::kSize, size});
    ladder.push_back({8, LadderScope::kAll, 0});
    return ladder;
  }
};

std::vector<Published> PublishedLadders() {
  return {{64, 0.02, {{2, 8}, {4, 32}}},
          {64, 0.02, {{4, 32}}},
          {128, 0.01, {{2, 8}, {4, 32}}},
          {128, 0.01, {{4, 32}}},
          {256, 0.01, {{1, 4}, {2, 16}, {4, 64}}},
          {256, 0.01, {{2, 8}, {4, 64}}},
          {256, 0.01, {{4, 16}}}};
}

TEST(LadderPlannerTest, BoundAdmitsThePublishedLadders) {
  double longest = 0;
  for (const Published& row : PublishedLadders()) {
    longest = std::max(longest, EquivalentPeriod(row.ladder(), Homes(row.ranks, 1, row.ranks), {}));
  }
  EXPECT_NEAR(longest, 4.22, 0.005);
}

// Plans from one history, and plays another.
TEST(LadderPlannerTest, IsAheadOfThePublishedLadders) {
  for (const Published& row : PublishedLadders()) {
    DrawnTimes wish = Stalling(row.ranks, row.share);
    const Ladder ours = PlanLadder(InputsOf(Draw(wish), 0)).ladder;
    wish.seed = 2;
    LadderInputs later = InputsOf(Draw(wish), 0);
    later.current = ours;
    const double step_s = PlanLadder(later).current.step_s;
    later.current = row.ladder();
    EXPECT_LT(step_s, PlanLadder(later).current.step_s)
        << DescribeLadder(ours) << " against " << DescribeLadder(row.ladder());
  }
}

// At each step one of 8 ranks stalls, those in `ranks` by turns.
OwnTimes StallsInTurn(const std::vector<size_t>& ranks, float stall_s) {
  OwnTimes times = Draw(Stalling(8, 0));
  for (size_t step = 0; step < 1000; ++step) {
    times.seconds[step * 8 + ranks[step % ranks.size()]] += stall_s;
  }
  return times;
}

TEST(LadderPlannerTest, OfEqualOnesTheOneThatDriftsLeast) {
  // A period of 2 gains as much as any other, apart from averaging more often.
  const LadderPlan plan = PlanLadder(InputsOf(StallsInTurn({0, 1}, 1), 0.001));
  ASSERT_EQ(plan.advice, LadderAdvice::kChange) << plan.reason;
  EXPECT_EQ(DescribeLadder(plan.ladder), "2:all");
  EXPECT_LT(plan.candidates.front().step_s, plan.step_s);
}

TEST(LadderPlannerTest, CertainGainBelowATenthIsNotEnough) {
  // Half of each stall is saved.
  const LadderPlan plan = PlanLadder(InputsOf(StallsInTurn({0, 1}, 0.0096F), 0));
  EXPECT_NEAR(plan.candidates.front().speedup, 1.08, 0.001);
  EXPECT_NEAR(plan.speedup_low, 1.08, 0.001);
  EXPECT_EQ(plan.advice, LadderAdvice::kKeep);
  EXPECT_EQ(PlanLadder(InputsOf(StallsInTurn({0, 1}, 0.013F), 0)).advice, LadderAdvice::kChange);

  LadderInputs inputs = InputsOf(StallsInTurn({0, 1}, 0.0096F), 0);
  inputs.current = {{1, LadderScope::kAll, 0}};
  EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kSynchronous);
}

TEST(LadderPlannerTest, LadderThatHardlyGainsGivesWayToOneThatGainsATenth) {
  // Ranks 0 and 1 wait for each other at each step, so that only the stalls of rank 2 coincide with
  // others.
  LadderInputs inputs = InputsOf(StallsInTurn({0, 1, 0, 2}, 0.055F * 0.235F), 0);
  inputs.current = {{1, LadderScope::kSize, 2}, {2, LadderScope::kAll, 0}};
  const LadderPlan plan = PlanLadder(inputs);
  EXPECT_NEAR(plan.current.speedup, 1.0499, 0.0001);
  EXPECT_NEAR(plan.candidates.front().speedup, 1.105, 0.001);
  EXPECT_EQ(plan.advice, LadderAdvice::kChange) << plan.reason;
}

TEST(LadderPlannerTest, GoodLadderIsKept) {
  LadderInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  inputs.current = PlanLadder(inputs).ladder;
  const LadderPlan plan = PlanLadder(inputs);
  EXPECT_EQ(plan.advice, LadderAdvice::kKeep);
  EXPECT_EQ(plan.ladder, inputs.current);
  EXPECT_EQ(plan.step_s, plan.current.step_s);
  EXPECT_THAT(plan.reason, HasSubstr("no other is better by 10 %"));
}

TEST(LadderPlannerTest, LadderThatIsOnlySlightlyWorseIsKept) {
  LadderInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  const LadderPlan best = PlanLadder(inputs);
  for (const auto& other : best.candidates) {
    inputs.current = other.ladder;
    const bool is_close = other.step_s < 1.09 * best.step_s;
    if (is_close) {
      EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kKeep);
    }
  }
  inputs.current = {{2, LadderScope::kAll, 0}};
  EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kChange);
}

TEST(LadderPlannerTest, LadderWithoutStallsIsGivenUp) {
  LadderInputs inputs = InputsOf(Draw(Stalling(64, 0)));
  inputs.current = kPublished;
  const LadderPlan plan = PlanLadder(inputs);
  EXPECT_EQ(plan.advice, LadderAdvice::kSynchronous);
  EXPECT_THAT(plan.ladder, IsEmpty());
  EXPECT_EQ(plan.step_s, plan.synchronous.step_s);
}

TEST(LadderPlannerTest, WornOutLadderGivesWayToABetterOne) {
  LadderInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  inputs.current = {{1, LadderScope::kAll, 0}};
  EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kChange);
}

TEST(LadderPlannerTest, WaitsForTheWarmUp) {
  LadderInputs inputs = InputsOf(Draw(Stalling(64, 0.02)));
  inputs.step = 999;
  EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kWarmUp) << "a twentieth of the steps";
  inputs.step = 1000;
  EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kChange);
  inputs.warmup_steps = 2000;
  EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kWarmUp);
  EXPECT_THAT(PlanLadder(inputs).ladder, IsEmpty());
  EXPECT_THAT(PlanLadder(inputs).candidates, SizeIs(kCandidatesReported)) << "to be looked at";
}

TEST(LadderPlannerTest, NeedsMeasurements) {
  DrawnTimes wish = Stalling(64, 0.02);
  wish.steps = 127;
  const LadderPlan few = PlanLadder(InputsOf(Draw(wish)));
  EXPECT_EQ(few.advice, LadderAdvice::kNotMeasured);
  EXPECT_THAT(few.reason, HasSubstr("127 of 128 steps"));
  wish.steps = 128;
  EXPECT_EQ(PlanLadder(InputsOf(Draw(wish))).advice, LadderAdvice::kChange);

  LadderInputs no_costs = InputsOf(Draw(Stalling(64, 0.02)));
  no_costs.costs = {};
  EXPECT_EQ(PlanLadder(no_costs).advice, LadderAdvice::kNotMeasured);

  LadderInputs long_cycle = InputsOf(Draw(Stalling(64, 0.02)));
  long_cycle.current = {{2000, LadderScope::kAll, 0}};
  const LadderPlan plan = PlanLadder(long_cycle);
  EXPECT_EQ(plan.advice, LadderAdvice::kNotMeasured);
  EXPECT_EQ(plan.ladder, long_cycle.current);
}

TEST(LadderPlannerTest, GainThatHangsOnOneMomentIsNotEnough) {
  // A ladder would make all its gain in three of a thousand steps.
  OwnTimes times = Draw(Stalling(8, 0));
  for (size_t i = 0; i < 3; ++i) times.seconds[(400 + i) * 8 + i] = 8;
  const LadderPlan plan = PlanLadder(InputsOf(std::move(times), 0));
  EXPECT_EQ(plan.advice, LadderAdvice::kKeep) << plan.reason;
  EXPECT_GT(plan.candidates.front().speedup, 1.10);
}

TEST(LadderPlannerTest, NoLadderForOneRankOrOneNode) {
  EXPECT_EQ(PlanLadder(InputsOf(Draw(Stalling(1, 0.02)))).advice, LadderAdvice::kNotMeasured);
  LadderInputs inputs = InputsOf(Draw(Stalling(8, 0.02)));
  inputs.gradient_groups = {8};
  EXPECT_EQ(PlanLadder(inputs).advice, LadderAdvice::kKeep);
  EXPECT_THAT(PlanLadder(inputs).reason,
              HasSubstr("no ladder for these ranks: all of them share their gradients"));
}

TEST(LadderPlannerTest, SameMeasurementsSamePlan) {
  const LadderInputs inputs = InputsOf(Draw(Stalling(48, 0.03)));
  const LadderPlan a = PlanLadder(inputs);
  const LadderPlan b = PlanLadder(inputs);
  EXPECT_EQ(a.ladder, b.ladder);
  EXPECT_EQ(a.step_s, b.step_s);
  EXPECT_EQ(a.reason, b.reason);
}

// A plan from one half of a history predicts the other half.
TEST(LadderPlannerTest, PredictsOtherStepsOfTheSameJob) {
  for (const auto& [ranks, share] :
       {std::pair{8, 0.02}, {16, 0.05}, {64, 0.02}, {256, 0.01}, {1024, 0.001}}) {
    DrawnTimes wish = Stalling(ranks, share);
    wish.steps = 500;
    const LadderPlan plan = PlanLadder(InputsOf(Draw(wish)));
    wish.seed = 77;
    LadderInputs later = InputsOf(Draw(wish));
    later.current = plan.ladder;
    EXPECT_NEAR(PlanLadder(later).current.step_s / plan.step_s, 1, 0.15) << ranks;
  }
}

}  // namespace
}  // namespace paceline
