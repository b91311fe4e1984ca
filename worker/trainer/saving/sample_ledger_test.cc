#include "worker/trainer/saving/sample_ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/trainer/core/sample_run.h"

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

}  // namespace
}  // namespace paceline
