// paceline job samples, of a ledger on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/parsed.h"
#include "proto/job.pb.h"
#include "worker/trainer/core/sample_run.h"
#include "worker/trainer/saving/sample_ledger.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kId[] = "job-0123456789ab";

class SamplesTest : public CommandTest {
 protected:
  SamplesTest() {
    std::filesystem::remove_all(root_);
    Serve("sample_ledger: true");
  }
  ~SamplesTest() override { std::filesystem::remove_all(root_); }

  void Serve(const std::string& more) {
    controller_.SetJobs({Parsed<v1::Job>(
        absl::StrCat("id: '", kId, "' state: RUNNING spec { name: 'small' ranks: 2 checkpoint { ",
                     "directory: '", root_, "' ", more, " } }"))});
  }

  // Two ranks have made eight steps of two samples each, of epochs of ten in the order of the data.
  // Only rank 0 has records; for the last step, its own samples alone.
  void Store() const {
    SampleLedger ledger(absl::StrCat(root_, "/", kId));
    SampleRun run;
    run.generation = 1;
    run.world_size = 2;
    run.with_size = 2;
    run.steps = 1;
    run.samples = 10;
    run.shuffle = false;
    for (; run.first_step < 7; ++run.first_step) {
      run.begin = run.end;
      run.end = PositionAfterStep(run);
      ledger.Add(run);
    }
    run.with_size = 1;  // The next one has lost the other rank's samples.
    run.begin = run.end;
    run.end = PositionAfterStep(run);
    ledger.Add(run);
    EXPECT_TRUE(ledger.Flush(absl::InfiniteDuration()));
  }

  const std::string root_ = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(SamplesTest, AnEpochInNumbers) {
  Store();
  const Ran ran = Paceline({"job", "samples", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("    0  0-4         10    10      0      0\n"));
  EXPECT_THAT(ran.out, HasSubstr("    1  5-7         10     5      0      5\n"));
  EXPECT_THAT(ran.err, HasSubstr("1 records of a rank's step are missing"));
  const auto json = nlohmann::json::parse(
      Paceline({"job", "samples", "small", "--epoch", "1", "-o", "json"}).out);
  ASSERT_EQ(json["epochs"].size(), 1U);
  EXPECT_EQ(json["epochs"][0]["once"], 5);
  EXPECT_EQ(json["missing_records"], 1);
  EXPECT_EQ(json["last_step"], 7);
}

TEST_F(SamplesTest, WhatAStepWasTrainedOn) {
  Store();
  EXPECT_EQ(Paceline({"job", "samples", "small", "--step", "3"}).out, "rank 0: 6\nrank 1: 7\n");
  const Ran partly = Paceline({"job", "samples", "small", "--step", "7"});
  EXPECT_EQ(partly.out, "rank 0: 4\n");
  EXPECT_THAT(partly.err, HasSubstr("no record of rank 1"));
  const auto json =
      nlohmann::json::parse(Paceline({"job", "samples", "small", "--step", "7", "-o", "json"}).out);
  EXPECT_EQ(json["ranks"][0]["samples"].dump(), "[4]");
  EXPECT_EQ(json["missing_ranks"].dump(), "[1]");
  EXPECT_EQ(json["known"], true);
  const Ran none = Paceline({"job", "samples", "small", "--step", "8"});
  EXPECT_EQ(none.exit, kCliNotFound);
  EXPECT_THAT(none.err, HasSubstr("there is no record of step 8"));
}

TEST_F(SamplesTest, WhichStepsHadASample) {
  Store();
  const auto json = nlohmann::json::parse(
      Paceline({"job", "samples", "small", "--sample", "3", "-o", "json"}).out);
  ASSERT_EQ(json["uses"].size(), 2U);
  EXPECT_EQ(json["uses"][0]["step"], 1);
  EXPECT_EQ(json["uses"][1]["step"], 6);
  EXPECT_EQ(json["uses"][1]["epoch"], 1);
  EXPECT_EQ(json["uses"][1]["rank"], 1);
  const Ran none = Paceline({"job", "samples", "small", "--sample", "10"});
  EXPECT_EQ(none.exit, kCliOk);
  EXPECT_THAT(none.out, IsEmpty());
  EXPECT_THAT(none.err, HasSubstr("sample 10 is in no step"));
}

TEST_F(SamplesTest, SaysWhereTheLedgerShouldBe) {
  const Ran unread = Paceline({"job", "samples", "small"});
  EXPECT_EQ(unread.exit, kCliNotFound);
  EXPECT_THAT(unread.err, HasSubstr(absl::StrCat(root_, "/", kId, "/samples")));
  EXPECT_THAT(unread.err, HasSubstr("run this where that directory is mounted"));
  Serve("");
  const Ran none = Paceline({"job", "samples", "small"});
  EXPECT_EQ(none.exit, kCliRefused);
  EXPECT_THAT(none.err, HasSubstr("`checkpoint: {directory: ..., sample_ledger: true}`"));
}

}  // namespace
}  // namespace paceline
