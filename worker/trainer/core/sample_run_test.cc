#include "worker/trainer/core/sample_run.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace paceline {
namespace {

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
}

TEST(SampleRunTest, ARecordIsReadAsItWasWritten) {
  SampleRun run = OneStep();
  run.shuffle = false;
  const std::string record = EncodeRun(run);
  ASSERT_EQ(record.size(), kRunBytes);
  const std::optional<SampleRun> read = DecodeRun(record);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->generation, 2);
  EXPECT_EQ(read->parent, 1);
  EXPECT_EQ(read->since, 5);
  EXPECT_EQ(read->rank, 1);
  EXPECT_EQ(read->world_size, 3);
  EXPECT_EQ(read->batch, 4);
  EXPECT_EQ(read->passes, 2);
  EXPECT_EQ(read->with_first, 0);
  EXPECT_EQ(read->with_size, 3);
  EXPECT_EQ(read->first_step, 7);
  EXPECT_EQ(read->steps, 1);
  EXPECT_EQ(read->begin, run.begin);
  EXPECT_EQ(read->end, run.end);
  EXPECT_EQ(read->samples, 30);
  EXPECT_EQ(read->seed, run.seed);
  EXPECT_FALSE(read->shuffle);
}

TEST(SampleRunTest, DamagedRecordsAreNone) {
  const std::string record = EncodeRun(OneStep());
  for (size_t at = 0; at < record.size(); ++at) {
    std::string damaged = record;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_FALSE(DecodeRun(damaged).has_value()) << "byte " << at;
  }
  EXPECT_FALSE(DecodeRun(record.substr(0, kRunBytes - 1)).has_value());
  EXPECT_FALSE(DecodeRun(std::string(kRunBytes, '\0')).has_value());
}

TEST(SampleRunTest, ImpossibleRecordsAreNone) {
  const auto is_sound = [](const SampleRun& run) { return DecodeRun(EncodeRun(run)).has_value(); };
  ASSERT_TRUE(is_sound(OneStep()));
  SampleRun run = OneStep();
  run.rank = 3;
  EXPECT_FALSE(is_sound(run));
  run = OneStep();
  run.with_first = 1;
  EXPECT_FALSE(is_sound(run));
  run = OneStep();
  run.samples = 11;
  EXPECT_FALSE(is_sound(run)) << "less than one batch of all ranks";
  run = OneStep();
  run.steps = -1;
  EXPECT_FALSE(is_sound(run));
  run = OneStep();
  run.begin.offset = 31;
  EXPECT_FALSE(is_sound(run));
}

}  // namespace
}  // namespace paceline
