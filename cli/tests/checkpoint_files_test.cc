// The verbs that read the files of checkpoints: verify and export.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/exit_codes.h"
#include "cli/testing/checkpoint_command_test.h"
#include "common/safetensors/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

}  // namespace
}  // namespace paceline
