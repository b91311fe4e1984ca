#include "worker/trainer/core/sample_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A rank's run in a generation that goes on from the one before, from `since` on. Epochs have 24
// samples in the data's order; a batch has two.
SampleRun ARun(int64_t generation, int64_t since, int rank, int world_size, int64_t steps,
               DataPosition begin) {
  SampleRun run;
  run.generation = generation;
  run.parent = generation - 1;
  run.since = since;
  run.rank = rank;
  run.world_size = world_size;
  run.batch = 2;
  run.with_size = world_size;
  run.first_step = since;
  run.steps = steps;
  run.begin = run.end = begin;
  run.samples = 24;
  run.shuffle = false;
  return run;
}

// The same, whose samples are its own.
SampleRun Alone(SampleRun run) {
  run.with_first = run.rank;
  run.with_size = 1;
  return run;
}

std::vector<StepUse> StepsOf(const std::vector<SampleRun>& runs) {
  std::vector<StepUse> steps;
  ForEachStep(CountedRuns(runs), [&](const StepUse& use) { steps.push_back(use); });
  return steps;
}

TEST(SampleUseTest, AnEpochIsUsedOnce) {
  // Six of two ranks.
  const LedgerUse use =
      UseOf(CountedRuns({ARun(1, 0, 0, 2, 7, {0, 0}), ARun(1, 0, 1, 2, 7, {0, 0})}));
  ASSERT_THAT(use.epochs, SizeIs(2));
  EXPECT_EQ(use.epochs[0].once, 24);
  EXPECT_EQ(use.epochs[0].again, 0);
  EXPECT_EQ(use.epochs[0].never, 0);
  EXPECT_EQ(use.epochs[0].first_step, 0);
  EXPECT_EQ(use.epochs[0].last_step, 5);
  EXPECT_EQ(use.epochs[1].once, 4);
  EXPECT_EQ(use.epochs[1].never, 20);
  EXPECT_EQ(use.last_step, 6);
  EXPECT_EQ(use.missing, 0);
  EXPECT_EQ(use.unknown, 0);
}

TEST(SampleUseTest, OneRecordStandsForAllWhoseGradientsItHas) {
  const std::vector<StepUse> steps = StepsOf({ARun(1, 0, 1, 2, 2, {0, 0})});
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_THAT(steps[1].ranks, ElementsAre(0, 1));
  EXPECT_THAT(steps[1].missing, IsEmpty());
  EXPECT_THAT(SamplesOf(steps[1], 0), ElementsAre(4, 6));
  EXPECT_THAT(SamplesOf(steps[1], 1), ElementsAre(5, 7));
}

TEST(SampleUseTest, WhatIsMadeAgainCountsOnce) {
  // Rank 0 has done steps 0 to 2 and was lost with the last of them: the others begin at step 2.
  const std::vector<SampleRun> runs = {ARun(1, 0, 0, 2, 3, {0, 0}), ARun(1, 0, 1, 2, 2, {0, 0}),
                                       ARun(2, 2, 0, 2, 2, {0, 8})};
  const LedgerUse use = UseOf(CountedRuns(runs));
  EXPECT_EQ(use.epochs[0].once, 16);
  EXPECT_EQ(use.epochs[0].again, 0);
  EXPECT_EQ(use.last_step, 3);
}

TEST(SampleUseTest, AStepThatOthersHaveTakenOverStays) {
  // Rank 0 has done step 2 with the other's gradients; they go on from step 3.
  const LedgerUse use =
      UseOf(CountedRuns({ARun(1, 0, 0, 2, 3, {0, 0}), ARun(2, 3, 1, 2, 1, {0, 12})}));
  EXPECT_EQ(use.epochs[0].once, 16);
  EXPECT_EQ(use.missing, 0);
}

TEST(SampleUseTest, GoingBackToACheckpointUndoesAllThatFollowedIt) {
  // Ten steps, back to step 4; then one step only: what was behind it is no part of the model.
  const std::vector<SampleRun> runs = {ARun(1, 0, 0, 2, 10, {0, 0}), ARun(5, 4, 0, 1, 1, {0, 16})};
  const LedgerUse use = UseOf(CountedRuns(runs));
  ASSERT_THAT(use.epochs, SizeIs(1));
  EXPECT_EQ(use.epochs[0].once, 18);
  EXPECT_EQ(use.last_step, 4);
}

TEST(SampleUseTest, ABeginningAloneUndoesToo) {
  const std::vector<SampleRun> runs = {ARun(1, 0, 0, 2, 10, {0, 0}), ARun(2, 4, 0, 2, 0, {0, 16})};
  EXPECT_EQ(UseOf(CountedRuns(runs)).last_step, 3);
}

TEST(SampleUseTest, AGenerationThatNobodyWentOnFromDoesNotCount) {
  // The second one could not read the newest checkpoint, at step 4; the third one can.
  SampleRun third = ARun(3, 4, 0, 2, 1, {0, 16});
  third.parent = 1;
  const LedgerUse use =
      UseOf(CountedRuns({ARun(1, 0, 0, 2, 5, {0, 0}), ARun(2, 2, 0, 2, 1, {0, 8}), third}));
  EXPECT_EQ(use.first_step, 0);
  EXPECT_EQ(use.last_step, 4);
  EXPECT_EQ(use.missing, 0);
  EXPECT_EQ(use.epochs[0].once, 20);
  EXPECT_EQ(use.epochs[0].again, 0);
}

TEST(SampleUseTest, WhatBeginsFromNothingHasNoParent) {
  SampleRun second = ARun(2, 0, 0, 2, 1, {0, 0});
  second.parent = 0;
  const LedgerUse use = UseOf(CountedRuns({ARun(1, 0, 0, 2, 5, {0, 0}), second}));
  EXPECT_EQ(use.last_step, 0);
  EXPECT_EQ(use.epochs[0].once, 4);
}

TEST(SampleUseTest, AnEpochGoesOnWithOtherRanks) {
  // Three steps of two ranks, two of one, two of three. The last two samples are too few for three
  // ranks.
  const LedgerUse use = UseOf(CountedRuns(
      {ARun(1, 0, 0, 2, 3, {0, 0}), ARun(2, 3, 0, 1, 2, {0, 12}), ARun(3, 5, 0, 3, 2, {0, 16})}));
  ASSERT_THAT(use.epochs, SizeIs(2));
  EXPECT_EQ(use.epochs[0].once, 22);
  EXPECT_EQ(use.epochs[0].never, 2);
  EXPECT_EQ(use.epochs[1].once, 6);
}

TEST(SampleUseTest, WithLocalAveragingEachRankHasItsOwnRecords) {
  const std::vector<StepUse> steps =
      StepsOf({Alone(ARun(1, 0, 0, 2, 3, {0, 0})), Alone(ARun(1, 0, 1, 2, 2, {0, 0}))});
  ASSERT_THAT(steps, SizeIs(3));
  EXPECT_THAT(steps[1].ranks, ElementsAre(0, 1));
  EXPECT_THAT(steps[2].ranks, ElementsAre(0));
  EXPECT_THAT(steps[2].missing, ElementsAre(1));
}

TEST(SampleUseTest, RanksMayBeStepsApart) {
  // Rank 1 goes on at step 2 in the second generation, rank 0 at step 4: its steps stay.
  const std::vector<SampleRun> runs = {
      Alone(ARun(1, 0, 0, 2, 4, {0, 0})), Alone(ARun(1, 0, 1, 2, 2, {0, 0})),
      Alone(ARun(2, 4, 0, 2, 1, {0, 16})), Alone(ARun(2, 2, 1, 2, 3, {0, 8}))};
  const LedgerUse use = UseOf(CountedRuns(runs));
  EXPECT_EQ(use.missing, 0);
  EXPECT_EQ(use.epochs[0].once, 20);
  EXPECT_EQ(use.epochs[0].again, 0);
}

TEST(SampleUseTest, RanksThatMakeStepsUpKeepTheirSamples) {
  // Of three ranks the last is lost; rank 1 makes step 2 up as it would have, and from step 3 on
  // there are two.
  SampleRun made_up = Alone(ARun(2, 3, 1, 3, 1, {0, 12}));
  made_up.first_step = 2;
  const std::vector<StepUse> steps =
      StepsOf({Alone(ARun(1, 0, 0, 3, 3, {0, 0})), Alone(ARun(1, 0, 1, 3, 2, {0, 0})), made_up,
               Alone(ARun(2, 3, 0, 2, 1, {0, 18})), Alone(ARun(2, 3, 1, 2, 1, {0, 18}))});
  ASSERT_THAT(steps, SizeIs(4));
  EXPECT_THAT(steps[2].ranks, ElementsAre(0, 1));
  EXPECT_THAT(steps[2].missing, ElementsAre(2));
  EXPECT_THAT(steps[3].missing, IsEmpty());
  EXPECT_THAT(SamplesOf(steps[2], 1), ElementsAre(13, 16));
}

TEST(SampleUseTest, StepsWithoutARecordAreMissing) {
  SampleRun later = ARun(1, 0, 0, 2, 1, {0, 12});
  later.first_step = 3;
  const LedgerUse use = UseOf(CountedRuns({ARun(1, 0, 0, 2, 1, {0, 0}), later}));
  EXPECT_EQ(use.missing, 2);
  EXPECT_EQ(use.epochs[0].once, 8);
}

TEST(SampleUseTest, StepsOfOtherDataAreUnknown) {
  SampleRun run = ARun(1, 0, 0, 2, 3, {0, 0});
  run.samples = 0;
  const LedgerUse use = UseOf(CountedRuns({run}));
  EXPECT_EQ(use.unknown, 3);
  EXPECT_THAT(use.epochs, IsEmpty());
}

TEST(SampleUseTest, ASampleUsedTwiceIsSeen) {
  // The second generation goes on at a place that was used.
  const LedgerUse use =
      UseOf(CountedRuns({ARun(1, 0, 0, 2, 2, {0, 0}), ARun(2, 2, 0, 2, 1, {0, 4})}));
  EXPECT_EQ(use.epochs[0].once, 4);
  EXPECT_EQ(use.epochs[0].again, 4);
  EXPECT_EQ(use.epochs[0].never, 16);
}

TEST(SampleUseTest, UsesOfASampleAreThoseOfTheSteps) {
  SampleRun run = ARun(1, 0, 0, 3, 6, {0, 0});
  run.shuffle = true;
  run.seed = 7;
  run.passes = 2;
  const std::vector<StepUse> steps = StepsOf({run});
  for (int64_t sample = 0; sample < 24; ++sample) {
    std::vector<std::pair<int64_t, int>> expected;
    for (const StepUse& step : steps) {
      for (const int rank : step.ranks) {
        for (const int64_t one : SamplesOf(step, rank)) {
          if (one == sample) expected.emplace_back(step.step, rank);
        }
      }
    }
    std::vector<std::pair<int64_t, int>> found;
    for (const SampleUse& use : UsesOf(CountedRuns({run}), sample)) {
      found.emplace_back(use.step, use.rank);
    }
    EXPECT_EQ(found, expected) << "sample " << sample;
    EXPECT_THAT(found, SizeIs(3)) << "epochs of two steps";
  }
}

// Epochs of 23 samples in passes of 6, 6, 6 and 5, and steps of two passes.
TEST(SampleUseTest, WithoutDropLastPassesAtTheEndOfAnEpochCount) {
  SampleRun run = ARun(1, 0, 0, 3, 6, {0, 0});
  run.samples = 23;
  run.shuffle = true;
  run.seed = 7;
  run.passes = 2;
  run.drop_last = false;
  const LedgerUse use = UseOf(CountedRuns({run}));
  for (const EpochUse& epoch : use.epochs) EXPECT_EQ(epoch.once, 23);
  // Of the last pass, two samples were rank 0's, and one rank 2's.
  SampleRun last = run;
  last.rank = 2;
  EXPECT_EQ(UseOf(CountedRuns({Alone(run), Alone(last)})).epochs.at(0).once, 6 + 2 + 6 + 1);
  for (int64_t sample = 0; sample < 23; ++sample) {
    const std::vector<SampleUse> uses = UsesOf(CountedRuns({run}), sample);
    ASSERT_THAT(uses, SizeIs(3)) << sample;
    for (const SampleUse& one : uses) {
      EXPECT_EQ(one.epoch, one.step / 2);
      const StepUse step = StepsOf({run}).at(static_cast<size_t>(one.step));
      EXPECT_THAT(SamplesOf(step, one.rank), ::testing::Contains(sample));
    }
  }
}

// As ARun, of a mixture of three sources.
SampleRun AMixedRun(int64_t generation, int64_t since, int world_size, int64_t steps,
                    DataPosition begin) {
  SampleRun run = ARun(generation, since, 0, world_size, steps, begin);
  run.mixture =
      std::make_shared<const Mixture>(std::vector<Mixture::Source>{{7, 0.5}, {30, 0.3}, {11, 0.2}});
  run.samples = run.mixture->samples();
  run.shuffle = true;
  run.seed = 3;
  run.passes = 2;
  return run;
}

// Five steps of two ranks, four of three, and six of one, each where the former have ended.
std::vector<SampleRun> MixedRuns() {
  return {AMixedRun(1, 0, 2, 5, {0, 0}), AMixedRun(2, 5, 3, 4, {0, 40}),
          AMixedRun(3, 9, 1, 6, {0, 88})};
}

// How often each sample, by source and number in it, was used by the steps.
std::map<std::pair<int, int64_t>, int> CountsOf(const std::vector<SampleRun>& runs) {
  std::map<std::pair<int, int64_t>, int> counts;
  for (const StepUse& step : StepsOf(runs)) {
    const Mixture& mixture = *step.as.mixture;
    for (const int rank : step.ranks) {
      for (const int64_t index : SamplesOf(step, rank)) {
        const int source = mixture.SourceOf(index);
        ++counts[{source, index - mixture.FirstOf(source)}];
      }
    }
  }
  return counts;
}

TEST(MixtureUseTest, EachSourceHasItsEpochs) {
  const LedgerUse use = UseOf(CountedRuns(MixedRuns()));
  EXPECT_EQ(use.missing, 0);
  // What the steps have used of each source.
  std::map<int, int64_t> used;
  for (const auto& [sample, count] : CountsOf(MixedRuns())) used[sample.first] += count;
  std::map<int, int64_t> told;
  std::map<int, int64_t> epochs;
  const int64_t sizes[] = {7, 30, 11};
  for (const EpochUse& one : use.epochs) {
    EXPECT_EQ(one.epoch, epochs[one.source]++);
    EXPECT_EQ(one.samples, sizes[one.source]);
    EXPECT_EQ(one.again, 0);
    EXPECT_EQ(one.once + one.never, one.samples);
    told[one.source] += one.once;
  }
  EXPECT_EQ(told, used);
  EXPECT_EQ(told[0] + told[1] + told[2], 112);
  for (const auto& [source, count] : epochs) {
    EXPECT_EQ(count, (used[source] + sizes[source] - 1) / sizes[source]) << "source " << source;
  }
}

TEST(MixtureUseTest, WhatALostRankHadIsNeverUsed) {
  std::vector<SampleRun> runs = MixedRuns();
  runs[1] = Alone(runs[1]);  // Only the samples of rank 0, of three.
  std::map<int, int64_t> used;
  for (const auto& [sample, count] : CountsOf(runs)) used[sample.first] += count;
  const LedgerUse use = UseOf(CountedRuns(runs));
  EXPECT_EQ(use.missing, 8);
  std::map<int, int64_t> told;
  for (const EpochUse& one : use.epochs) told[one.source] += one.once;
  EXPECT_EQ(told, used);
  EXPECT_EQ(told[0] + told[1] + told[2], 80);
}

TEST(MixtureUseTest, UsesOfASampleAreThoseOfTheSteps) {
  const std::vector<SampleRun> runs = MixedRuns();
  const std::vector<StepUse> steps = StepsOf(runs);
  const int64_t sizes[] = {7, 30, 11};
  for (int source = 0; source < 3; ++source) {
    for (int64_t sample = 0; sample < sizes[source]; ++sample) {
      std::vector<std::pair<int64_t, int>> expected;
      for (const StepUse& step : steps) {
        const int64_t wanted = step.as.mixture->FirstOf(source) + sample;
        for (const int rank : step.ranks) {
          for (const int64_t one : SamplesOf(step, rank)) {
            if (one == wanted) expected.emplace_back(step.step, rank);
          }
        }
      }
      std::vector<std::pair<int64_t, int>> found;
      int64_t epoch = 0;
      for (const SampleUse& use : UsesOf(CountedRuns(runs), sample, source)) {
        found.emplace_back(use.step, use.rank);
        EXPECT_EQ(use.epoch, epoch++);
      }
      // Those of a step are by epoch, the others by rank.
      std::sort(found.begin(), found.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(found, expected) << "sample " << sample << " of source " << source;
    }
  }
}

TEST(MixtureUseTest, RunsOfOtherMixturesAreRunsOfTheirOwn) {
  SampleRun run = AMixedRun(1, 0, 2, 0, {0, 0});
  SampleRun next = run;
  next.steps = 1;
  next.end = PositionAfterStep(next);
  SampleRun other = next;
  other.mixture =
      std::make_shared<const Mixture>(std::vector<Mixture::Source>{{7, 0.5}, {30, 0.2}, {11, 0.3}});
  EXPECT_FALSE(Extend(&run, other));
  // Of another file, with the same words.
  other.mixture = std::make_shared<const Mixture>(*next.mixture);
  EXPECT_TRUE(Extend(&run, other));
}

// A step of rank 1 of three, in an order of 30 samples.
SampleRun OneStep() {
  SampleRun run;
  run.generation = 2;
  run.parent = 1;
  run.since = 5;
  run.rank = 1;
  run.world_size = 3;
  run.batch = 4;
  run.passes = 2;
  run.with_first = 0;
  run.with_size = 3;
  run.first_step = 7;
  run.steps = 1;
  run.samples = 30;
  run.seed = 0xfedcba9876543210;
  run.begin = {1, 6};
  run.end = PositionAfterStep(run);
  return run;
}

// The step behind it.
SampleRun NextOf(SampleRun run) {
  run.first_step += run.steps;
  run.steps = 1;
  run.begin = run.end;
  run.end = PositionAfterStep(run);
  return run;
}

TEST(SampleRunTest, AStepEndsBehindAllRanksPasses) {
  const SampleRun run = OneStep();
  EXPECT_EQ(run.end, (DataPosition{1, 30}));
  // What is left of an epoch is skipped.
  EXPECT_EQ(NextOf(run).end, (DataPosition{2, 24}));
}

TEST(SampleRunTest, StepsThatFollowAreOneRun) {
  SampleRun run = OneStep();
  const SampleRun next = NextOf(run);
  ASSERT_TRUE(Extend(&run, next));
  EXPECT_EQ(run.first_step, 7);
  EXPECT_EQ(run.steps, 2);
  EXPECT_EQ(run.begin, (DataPosition{1, 6}));
  EXPECT_EQ(run.end, next.end);
}

TEST(SampleRunTest, ABeginningIsTheStartOfARun) {
  SampleRun run = OneStep();
  run.steps = 0;
  run.end = run.begin;
  ASSERT_TRUE(Extend(&run, OneStep()));
  EXPECT_EQ(run.steps, 1);
}

TEST(SampleRunTest, OthersAreRunsOfTheirOwn) {
  const SampleRun run = OneStep();
  const SampleRun next = NextOf(run);
  const auto extends = [&](const SampleRun& changed) {
    SampleRun longer = run;
    return Extend(&longer, changed);
  };
  ASSERT_TRUE(extends(next));
  SampleRun changed = next;
  changed.first_step += 1;
  EXPECT_FALSE(extends(changed)) << "a step is left out";
  changed = next;
  changed.begin.offset -= 1;
  EXPECT_FALSE(extends(changed)) << "it begins elsewhere";
  changed = next;
  changed.generation = 3;
  EXPECT_FALSE(extends(changed));
  changed = next;
  changed.with_size = 2;
  EXPECT_FALSE(extends(changed));
  changed = next;
  changed.samples = 0;
  EXPECT_FALSE(extends(changed));
  changed = next;
  changed.drop_last = false;
  EXPECT_FALSE(extends(changed));
}

}  // namespace
}  // namespace paceline
