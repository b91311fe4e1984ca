// The verbs that read the files of checkpoints, and the ledger of samples beside them.
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/exit_codes.h"
#include "cli/testing/checkpoint_command_test.h"
#include "cli/testing/command_test.h"
#include "cli/testing/parsed.h"
#include "common/safetensors/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/trainer/core/sample_use.h"
#include "worker/trainer/saving/sample_ledger.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(CheckpointTest, VerifyOfSoundFiles) {
  Store();
  const Ran ran = Paceline({"checkpoint", "verify", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(stored_ + " is sound: all 64 B are"));
  const auto json =
      nlohmann::json::parse(Paceline({"checkpoint", "verify", stored_, "-o", "json"}).out);
  EXPECT_EQ(json["sound"], true);
  EXPECT_EQ(json["bytes_read"], 64);
}

TEST_F(CheckpointTest, VerifyNamesEveryDamage) {
  Store();
  DamageSlice(stored_, "model/model.norm.weight", 0);
  DamageSlice(stored_, "model/lm_head.weight", 1);
  const Ran ran = Paceline({"checkpoint", "verify", stored_});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("model/model.norm.weight"));
  EXPECT_THAT(ran.out, HasSubstr("shard-00001-of-00002.safetensors"));
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 2) << ran.out;
  EXPECT_THAT(ran.err, HasSubstr("is damaged in 2 places"));
  const Ran json = Paceline({"checkpoint", "verify", stored_, "-o", "json"});
  EXPECT_EQ(json.exit, kCliFailed);
  EXPECT_THAT(nlohmann::json::parse(json.out)["damages"], SizeIs(2));
}

TEST_F(CheckpointTest, VerifyTellsAMissingShard) {
  Store();
  fs::remove(stored_ + "/shard-00001-of-00002.safetensors");
  const Ran ran = Paceline({"checkpoint", "verify", stored_});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("shard-00001-of-00002.safetensors"));
}

TEST_F(CheckpointTest, VerifyNeedsTheFiles) {
  const Ran ran = Paceline({"checkpoint", "verify", "small"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, HasSubstr("run this where that is mounted"));
  EXPECT_EQ(Paceline({"checkpoint", "verify", "./nothing"}).exit, kCliNotFound);
}

TEST_F(CheckpointTest, TerminalShowsABarAndTakesItAway) {
  Store();
  const Ran ran = Paceline({"checkpoint", "verify", stored_}, /*terminal=*/true);
  EXPECT_THAT(ran.out, HasSubstr("\rverifying  ["));
  EXPECT_THAT(ran.out, HasSubstr("\r\x1b[K" + stored_ + " is sound"));
}

TEST_F(CheckpointTest, ExportOfALlamaIsADirectory) {
  Store();
  const Ran ran = Paceline({"checkpoint", "export", "small", "--to", root_ + "/out", "--dtype",
                            "bf16", "--max-shard-size", "16B"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "2 tensors, 24 B, in " + root_ + "/out (4 files)\n");
  EXPECT_TRUE(fs::exists(root_ + "/out/model.safetensors.index.json"));
  const Ran again = Paceline({"checkpoint", "export", "small", "--to", root_ + "/out"});
  EXPECT_EQ(again.exit, kCliRefused);
  EXPECT_THAT(again.err, HasSubstr("is not empty"));
}

TEST_F(CheckpointTest, ExportToAFileIsOneFile) {
  Store();
  const std::string file = root_ + "/all.safetensors";
  const Ran ran = Paceline({"checkpoint", "export", stored_, "--to", file, "-o", "json"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(nlohmann::json::parse(ran.out)["files"], ElementsAre(file));
  const auto exported = SafetensorsFile::Open(file);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(exported->tensors(), SizeIs(2));
}

TEST_F(CheckpointTest, ExportOfDamagedFilesFails) {
  Store();
  DamageSlice(stored_, "model/lm_head.weight", 0);
  const Ran ran = Paceline({"checkpoint", "export", stored_, "--to", root_ + "/out"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.err, HasSubstr("model/lm_head.weight"));
  EXPECT_FALSE(fs::exists(root_ + "/out"));
}

TEST_F(CheckpointTest, ExportWritesNoFilesOfTorchSave) {
  Store();
  for (const char* name : {"y.pt", "y.pth", "y.bin"}) {
    const Ran ran = Paceline({"checkpoint", "export", stored_, "--to", root_ + "/" + name});
    EXPECT_EQ(ran.exit, kCliUsage);
    EXPECT_THAT(ran.err, HasSubstr("load_file(\"" + root_ + "/y.safetensors\")\n  torch.save("));
    EXPECT_FALSE(fs::exists(root_ + "/" + name));
  }
}

TEST_F(CheckpointTest, ExportNamesTheDirectoryThatIsMissing) {
  Store();
  for (const char* name : {"/no/y.safetensors", "/no/y"}) {
    const Ran ran = Paceline({"checkpoint", "export", stored_, "--to", root_ + name});
    EXPECT_EQ(ran.exit, kCliNotFound);
    EXPECT_EQ(ran.err, absl::StrCat("error: there is no directory ", root_,
                                    "/no to write into: make it, or name another\n"));
  }
}

TEST_F(CheckpointTest, InterruptedExportLeavesNothing) {
  Store();
  interrupt_.Raise();
  for (const char* name : {"/y.safetensors", "/y"}) {
    const Ran ran = Paceline({"checkpoint", "export", stored_, "--to", root_ + name});
    EXPECT_EQ(ran.exit, kCliInterrupted);
    EXPECT_THAT(ran.err, HasSubstr("nothing was exported"));
  }
  // Only the checkpoint.
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
}

TEST_F(CheckpointTest, ExportFlagsAreChecked) {
  EXPECT_EQ(Paceline({"checkpoint", "export", "small"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"checkpoint", "export", "s", "--to", "o", "--dtype", "int8"}).exit,
            kCliUsage);
  EXPECT_EQ(Paceline({"checkpoint", "export", "s", "--to", "o", "--max-shard-size", "0"}).exit,
            kCliUsage);
}

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

TEST_F(SamplesTest, AMixtureIsShownBySources) {
  controller_.SetJobs({Parsed<v1::Job>(absl::StrCat(
      "id: '", kId, "' state: RUNNING spec { name: 'small' ranks: 1 data { ",
      "sources { path: '/web.tokens' weight: 3 } sources { path: '/code.tokens' weight: 1 } } ",
      "checkpoint { directory: '", root_, "' sample_ledger: true } }"))});
  SampleRun run;
  run.generation = 1;
  run.mixture = std::make_shared<const Mixture>(std::vector<Mixture::Source>{{40, 3}, {8, 1}});
  run.samples = 48;
  run.batch = 16;
  run.steps = 1;
  run.shuffle = false;
  {
    SampleLedger ledger(absl::StrCat(root_, "/", kId));
    for (; run.first_step < 4; ++run.first_step) {
      run.begin = run.end;
      run.end = PositionAfterStep(run);
      ledger.Add(run);
    }
    EXPECT_TRUE(ledger.Flush(absl::InfiniteDuration()));
  }
  // Of 64 samples, three quarters are of the first source: an epoch of 40, and 8 of the next one.
  const Ran ran = Paceline({"job", "samples", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("SOURCE  EPOCH  STEPS  SAMPLES  ONCE  AGAIN  NEVER\n"));
  EXPECT_THAT(ran.err, HasSubstr("source 1 is /code.tokens"));
  const auto json = nlohmann::json::parse(Paceline({"job", "samples", "small", "-o", "json"}).out);
  ASSERT_EQ(json["epochs"].size(), 4U);
  EXPECT_EQ(json["sources"].dump(), R"(["/web.tokens","/code.tokens"])");
  const int64_t once[] = {40, 8, 8, 8};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json["epochs"][i]["source"], i / 2);
    EXPECT_EQ(json["epochs"][i]["epoch"], i % 2);
    EXPECT_EQ(json["epochs"][i]["once"], once[i]);
  }
  const auto of_one = nlohmann::json::parse(
      Paceline({"job", "samples", "small", "--source", "1", "-o", "json"}).out);
  EXPECT_EQ(of_one["epochs"].size(), 2U);

  const auto step =
      nlohmann::json::parse(Paceline({"job", "samples", "small", "--step", "0", "-o", "json"}).out);
  EXPECT_EQ(step["ranks"][0]["samples"].size(), 16U);
  EXPECT_EQ(step["ranks"][0]["sources"].size(), 16U);
  EXPECT_THAT(Paceline({"job", "samples", "small", "--step", "0"}).out, HasSubstr(" 0:1 "));

  const auto uses = nlohmann::json::parse(
      Paceline({"job", "samples", "small", "--sample", "3", "--source", "1", "-o", "json"}).out);
  EXPECT_EQ(uses["uses"].size(), 2U);
  const Ran without = Paceline({"job", "samples", "small", "--sample", "3"});
  EXPECT_EQ(without.exit, kCliUsage);
  EXPECT_THAT(without.err, HasSubstr("give --source too, from 0 to 1"));
  const Ran beyond = Paceline({"job", "samples", "small", "--source", "2"});
  EXPECT_EQ(beyond.exit, kCliUsage);
  EXPECT_THAT(beyond.err, HasSubstr("the job has the sources 0 to 1"));
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
