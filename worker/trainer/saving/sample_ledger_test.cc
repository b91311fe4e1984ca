#include "worker/trainer/saving/sample_ledger.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/trainer/core/mixture.h"
#include "worker/trainer/core/sample_use.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class SampleLedgerTest : public ::testing::Test {
 protected:
  SampleLedgerTest() { fs::remove_all(job_); }
  ~SampleLedgerTest() override { fs::remove_all(job_); }

  // The next step of the only rank.
  static SampleRun Next(SampleRun run) {
    run.first_step += run.steps;
    run.steps = 1;
    run.begin = run.end;
    run.end = PositionAfterStep(run);
    return run;
  }
  static SampleRun Beginning(int64_t generation, int64_t step) {
    SampleRun run;
    run.generation = generation;
    run.since = run.first_step = step;
    run.batch = 2;
    run.samples = 100;
    return run;
  }
  // Adds a beginning and `steps` steps.
  static void AddSteps(SampleLedger& ledger, int64_t generation, int64_t first, int64_t steps) {
    SampleRun run = Beginning(generation, first);
    ledger.Add(run);
    for (int64_t i = 0; i < steps; ++i) {
      run = Next(run);
      ledger.Add(run);
    }
  }
  LedgerFiles Read() const {
    absl::StatusOr<LedgerFiles> files = ReadSampleLedger(job_);
    EXPECT_TRUE(files.ok()) << files.status();
    return files.ok() ? *files : LedgerFiles();
  }

  const std::string job_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string file_ = job_ + "/samples/generation-3.rank-0.runs";
};

TEST_F(SampleLedgerTest, AGenerationIsOneRecord) {
  {
    SampleLedger ledger(job_);
    AddSteps(ledger, 3, 10, 1000);
    AddSteps(ledger, 4, 1010, 5);
    EXPECT_TRUE(ledger.Flush(absl::InfiniteDuration()));
    EXPECT_EQ(fs::file_size(file_), 2 * kRunBytes);
  }
  const LedgerFiles files = Read();
  EXPECT_EQ(files.damaged, 0);
  ASSERT_EQ(files.runs.size(), 2U);
  EXPECT_EQ(files.runs[0].first_step, 10);
  EXPECT_EQ(files.runs[0].steps, 1000);
  EXPECT_EQ(files.runs[1].generation, 4);
  EXPECT_EQ(files.runs[1].steps, 5);
}

TEST_F(SampleLedgerTest, ARunThatTakesEpochsToTheEndIsReadAsOne) {
  SampleRun run = Beginning(3, 0);
  run.batch = 30;
  run.drop_last = false;
  for (int i = 0; i < 4; ++i) run = Next(run);
  EXPECT_EQ(run.end, (DataPosition{0, 100}));
  const std::optional<SampleRun> read = DecodeRun(EncodeRun(run));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->drop_last);
  EXPECT_EQ(PositionAfterStep(*read), run.end);
  run.drop_last = true;
  EXPECT_TRUE(DecodeRun(EncodeRun(run))->drop_last);
}

TEST_F(SampleLedgerTest, WhatIsLeftIsWrittenAtTheEnd) {
  {
    SampleLedger ledger(job_);
    AddSteps(ledger, 3, 0, 7);
  }
  const LedgerFiles files = Read();
  ASSERT_EQ(files.runs.size(), 1U);
  EXPECT_EQ(files.runs[0].steps, 7);
}

TEST_F(SampleLedgerTest, TornAndChangedRecordsAreCountedAndLeftOut) {
  {
    SampleLedger ledger(job_);
    AddSteps(ledger, 3, 0, 2);
    AddSteps(ledger, 4, 2, 2);
    ledger.Flush(absl::InfiniteDuration());
  }
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(40);
  file << "changed";
  file.seekp(0, std::ios::end);
  file << "torn";
  file.close();
  const LedgerFiles files = Read();
  EXPECT_EQ(files.damaged, 2);
  ASSERT_EQ(files.runs.size(), 1U);
  EXPECT_EQ(files.runs[0].generation, 4);
}

TEST_F(SampleLedgerTest, AFailureEndsNothingAndIsMadeUpFor) {
  // A file where the directory should be.
  std::ofstream(job_) << "in the way";
  SampleLedger ledger(job_);
  AddSteps(ledger, 3, 0, 4);
  EXPECT_FALSE(ledger.Flush(absl::InfiniteDuration()));
  fs::remove(job_);
  AddSteps(ledger, 4, 4, 1);
  EXPECT_TRUE(ledger.Flush(absl::InfiniteDuration()));
  const LedgerFiles files = Read();
  ASSERT_EQ(files.runs.size(), 2U);
  EXPECT_EQ(files.runs[0].steps, 4);
  EXPECT_EQ(files.runs[1].steps, 1);
}

TEST_F(SampleLedgerTest, AnothersFileStays) {
  fs::create_directories(job_ + "/samples");
  std::ofstream(file_) << "another's";
  {
    SampleLedger ledger(job_);
    AddSteps(ledger, 3, 0, 4);
    EXPECT_FALSE(ledger.Flush(absl::InfiniteDuration()));
  }
  EXPECT_EQ(fs::file_size(file_), 9U);
}

TEST_F(SampleLedgerTest, AJobWithoutALedgerHasNone) {
  EXPECT_EQ(ReadSampleLedger(job_).status().code(), absl::StatusCode::kNotFound);
}

// As Beginning, of a mixture of two sources.
SampleRun MixedBeginning(int64_t generation) {
  SampleRun run;
  run.generation = generation;
  run.batch = 2;
  run.mixture = std::make_shared<const Mixture>(std::vector<Mixture::Source>{{30, 0.3}, {70, 0.7}});
  run.samples = 100;
  return run;
}

TEST_F(SampleLedgerTest, RunsOfAMixtureComeBehindItsSources) {
  {
    SampleLedger ledger(job_);
    SampleRun run = MixedBeginning(3);
    ledger.Add(run);
    for (int64_t i = 0; i < 200; ++i) {
      run = Next(run);
      ledger.Add(run);
    }
    run = MixedBeginning(4);
    run.first_step = run.since = 200;
    run.begin = run.end = {0, 400};
    ledger.Add(run);
    EXPECT_TRUE(ledger.Flush(absl::InfiniteDuration()));
    EXPECT_EQ(fs::file_size(file_), 4 * kRunBytes);
  }
  const LedgerFiles files = Read();
  EXPECT_EQ(files.damaged, 0);
  ASSERT_EQ(files.runs.size(), 2U);
  EXPECT_EQ(files.runs[0].steps, 200);
  EXPECT_EQ(files.runs[0].end, (DataPosition{0, 400})) << "beyond what an epoch could be";
  ASSERT_NE(files.runs[0].mixture, nullptr);
  EXPECT_EQ(*files.runs[0].mixture, *MixedBeginning(3).mixture);
  EXPECT_EQ(files.runs[1].generation, 4);
}

// It has no end, so a batch of all ranks may take some of its samples twice.
TEST_F(SampleLedgerTest, AMixtureMayHaveFewerSamplesThanABatch) {
  SampleRun run = MixedBeginning(3);
  run.batch = 150;
  const std::optional<SampleRun> read = DecodeRun(EncodeRun(Next(run)), run.mixture);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->end, (DataPosition{0, 150}));
  run.mixture = nullptr;
  EXPECT_FALSE(DecodeRun(EncodeRun(run)).has_value());
}

TEST_F(SampleLedgerTest, RunsOfAMixtureThatIsDamagedAreDamagedToo) {
  {
    SampleLedger ledger(job_);
    ledger.Add(Next(MixedBeginning(3)));
    EXPECT_TRUE(ledger.Flush(absl::InfiniteDuration()));
  }
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(kRunBytes) + 20);
  file << "changed";
  file.close();
  const LedgerFiles files = Read();
  EXPECT_EQ(files.damaged, 3);
  EXPECT_TRUE(files.runs.empty());
}

TEST(SourceRecordTest, ARecordIsReadAsItWasWritten) {
  const SourceRecord record = {4, 7, {123, 0.25}};
  const std::optional<SourceRecord> read = DecodeSource(EncodeSource(record));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->number, 4);
  EXPECT_EQ(read->count, 7);
  EXPECT_TRUE(read->source == record.source);
  EXPECT_FALSE(DecodeRun(EncodeSource(record)).has_value());
  EXPECT_FALSE(DecodeSource(EncodeRun(MixedBeginning(1))).has_value());
  EXPECT_FALSE(DecodeRun(EncodeRun(MixedBeginning(1))).has_value()) << "without its sources";
}

TEST(SourceRecordTest, ImpossibleRecordsAreNone) {
  for (const SourceRecord& record :
       {SourceRecord{7, 7, {123, 0.25}}, SourceRecord{-1, 7, {123, 0.25}},
        SourceRecord{0, 1000, {123, 0.25}}, SourceRecord{0, 7, {0, 0.25}},
        SourceRecord{0, 7, {123, 0}}, SourceRecord{0, 7, {123, -1}}}) {
    EXPECT_FALSE(DecodeSource(EncodeSource(record)).has_value())
        << record.number << " of " << record.count << ", " << record.source.weight;
  }
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

TEST(SampleRecordTest, ARecordIsReadAsItWasWritten) {
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

TEST(SampleRecordTest, DamagedRecordsAreNone) {
  const std::string record = EncodeRun(OneStep());
  for (size_t at = 0; at < record.size(); ++at) {
    std::string damaged = record;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_FALSE(DecodeRun(damaged).has_value()) << "byte " << at;
  }
  EXPECT_FALSE(DecodeRun(record.substr(0, kRunBytes - 1)).has_value());
  EXPECT_FALSE(DecodeRun(std::string(kRunBytes, '\0')).has_value());
}

TEST(SampleRecordTest, ImpossibleRecordsAreNone) {
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
