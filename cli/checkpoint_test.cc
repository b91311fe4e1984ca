// The verbs about checkpoints against a controller on a real socket and real files.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command_line.h"
#include "cli/testing/fake_controller.h"
#include "common/export/testing/checkpoint_writer.h"
#include "common/safetensors/safetensors.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kId[] = "job-0123456789ab";
constexpr char kOlderId[] = "job-ba9876543210";

struct Ran {
  int exit = 0;
  std::string out;
  std::string err;
};

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

grpc::Status Refused(const std::string& message, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  google::rpc::Status whole;
  whole.add_details()->PackFrom(info);
  return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, message, whole.SerializeAsString());
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    controller_.SetJobs({Job("")});
    controller_.SetCheckpoints({Known(kId, 120, 2), Known(kId, 60, 1)});
  }
  ~CheckpointTest() override { fs::remove_all(root_); }

  // `changes` in protobuf's text format.
  static v1::Job Job(const std::string& changes) {
    auto job = Parsed<v1::Job>(
        "id: 'job-0123456789ab' state: RUNNING spec { name: 'small' ranks: 2 steps: 200 }");
    job.MergeFrom(Parsed<v1::Job>(changes));
    return job;
  }

  v1::Checkpoint Known(const std::string& job, int64_t step, int64_t generation) const {
    v1::Checkpoint checkpoint;
    checkpoint.set_job_id(job);
    checkpoint.set_job_name("small");
    checkpoint.set_step(step);
    checkpoint.set_generation(generation);
    checkpoint.set_ranks(2);
    checkpoint.set_bytes(2048);
    checkpoint.set_state(v1::CHECKPOINT_COMPLETE);
    checkpoint.set_directory(stored_);
    return checkpoint;
  }

  // On disk, of a llama (with two of its tensors).
  void Store() const {
    Manifest manifest;
    manifest.job_id = kId;
    manifest.generation = 2;
    manifest.step = 120;
    manifest.ranks = 2;
    manifest.paceline_version = "1";
    manifest.torch_version = "2";
    manifest.job_spec =
        R"({"name": "small", "model": {"llama": {"dim": "4", "heads": "2"}}, "steps": "200"})";
    WriteCheckpoint(stored_, manifest,
                    {FloatsToStore("model/model.norm.weight", {4}, {1, 2, 3, 4}),
                     FloatsToStore("model/lm_head.weight", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
                     FloatsToStore("optimizer/exp_avg/model.norm.weight", {4}, {1, 2, 3, 4})});
  }

  void WatchShows(const std::vector<std::string>& changes) {
    StreamScript<v1::JobEvent> script;
    int64_t revision = 1;
    for (const std::string& change : changes) {
      v1::JobEvent& event = script.messages.emplace_back();
      event.set_type(v1::MODIFIED);
      *event.mutable_job() = Job(change);
      event.mutable_job()->set_revision(++revision);
      event.set_revision(revision);
    }
    controller_.AddWatch(std::move(script));
  }

  Ran Paceline(std::vector<std::string> arguments, bool terminal = false) {
    std::ostringstream out;
    std::ostringstream err;
    Surroundings surroundings{out, err, terminal, terminal ? 100 : 0, [this](const char* name) {
                                const auto at = environment_.find(name);
                                return at == environment_.end() ? "" : at->second;
                              }};
    Program program(surroundings, interrupt_);
    Ran ran;
    ran.exit = RunCommandLine(program, std::move(arguments));
    ran.out = out.str();
    ran.err = err.str();
    return ran;
  }

  const std::string root_ =
      fs::path(::testing::TempDir() + "/" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())
          .lexically_normal();
  const std::string stored_ = root_ + "/step-000000000120.g2";
  FakeController controller_;
  Interrupt interrupt_;
  std::map<std::string, std::string> environment_ = {{"PACELINE_SERVER", controller_.address()},
                                                     {"PACELINE_DEV_DIR", "/nonexistent"}};
};

TEST_F(CheckpointTest, ListedNamesCanBeTypedBack) {
  // An older job of the same name, and a step that two generations saved.
  controller_.SetCheckpoints(
      {Known(kId, 120, 2), Known(kId, 60, 2), Known(kId, 60, 1), Known(kOlderId, 60, 1)});
  const Ran ran = Paceline({"checkpoint", "list"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "CHECKPOINT           STEP  GEN  RANKS     SIZE  AGE  STATE     PINNED\n"
            "small/120             120    2      2  2.0 KiB    -  COMPLETE  -\n"
            "small/60               60    2      2  2.0 KiB    -  COMPLETE  -\n"
            "small/60.g1            60    1      2  2.0 KiB    -  COMPLETE  -\n"
            "job-ba9876543210/60    60    1      2  2.0 KiB    -  COMPLETE  -\n");
}

TEST_F(CheckpointTest, ListIsPagedAndLimited) {
  std::vector<v1::Checkpoint> many;
  for (int step = 30; step > 0; --step) many.push_back(Known(kId, step, 1));
  controller_.SetCheckpoints(many);
  const Ran ran = Paceline({"checkpoint", "list", "small", "--limit", "20", "-o", "json"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(nlohmann::json::parse(ran.out)["checkpoints"], SizeIs(20));
  EXPECT_THAT(Paceline({"checkpoint", "list", "--limit", "20"}).err,
              HasSubstr("--limit shows more than 20"));
}

TEST_F(CheckpointTest, NoCheckpointsAreNoError) {
  controller_.SetCheckpoints({});
  const Ran ran = Paceline({"checkpoint", "list"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(ran.err, HasSubstr("no checkpoints yet"));
}

TEST_F(CheckpointTest, DescribeTellsWhatTheControllerAndTheFilesSay) {
  Store();
  const Ran ran = Paceline({"checkpoint", "describe", "small/120"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("Name:       small/120\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nPinned:     no\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nmodel            2  48 B\noptimizer        1  16 B\n"));
  EXPECT_THAT(ran.out, HasSubstr("\n  name: small\n"));
  EXPECT_THAT(ran.err, IsEmpty());
}

TEST_F(CheckpointTest, DescribeOfAPathAsksNobody) {
  Store();
  environment_["PACELINE_SERVER"] = "127.0.0.1:1";
  const Ran ran = Paceline({"checkpoint", "describe", root_ + "/./step-000000000120.g2/"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("Job:        job-0123456789ab\n"));
  EXPECT_THAT(ran.out, HasSubstr(absl::StrCat("\nDirectory:  ", stored_, "\n")));
  const Ran tensors = Paceline({"checkpoint", "describe", stored_, "--tensors"});
  EXPECT_THAT(tensors.out, HasSubstr("\nmodel/model.norm.weight              F32    [4]     16 B  "
                                     "shard-00000-of-00002.safetensors, shard-00001-of-00002"));
}

TEST_F(CheckpointTest, DescribeWithoutTheFilesTellsWhereTheyAre) {
  const Ran ran = Paceline({"checkpoint", "describe", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("Step:       120\n"));
  EXPECT_THAT(ran.err, HasSubstr("cannot be read on this machine"));
  EXPECT_EQ(Paceline({"checkpoint", "describe", "small", "--tensors"}).exit, kCliRefused);
  EXPECT_EQ(Paceline({"checkpoint", "describe", stored_}).exit, kCliNotFound);
}

TEST_F(CheckpointTest, DescribeAsJsonHasBothSources) {
  Store();
  const auto both =
      nlohmann::json::parse(Paceline({"checkpoint", "describe", "small", "-o", "json"}).out);
  EXPECT_EQ(both["checkpoint"]["job_name"], "small");
  EXPECT_EQ(both["manifest"]["step"], 120);
  const auto one =
      nlohmann::json::parse(Paceline({"checkpoint", "describe", stored_, "-o", "json"}).out);
  EXPECT_TRUE(one["checkpoint"].is_null());
}

TEST_F(CheckpointTest, UnknownNameIsNotFoundWithAdvice) {
  const Ran ran = Paceline({"checkpoint", "describe", "small/7"});
  EXPECT_EQ(ran.exit, kCliNotFound);
  EXPECT_THAT(ran.err, HasSubstr("`paceline checkpoint list` shows those that there are"));
}

TEST_F(CheckpointTest, SaveWaitsUntilItIsSafe) {
  WatchShows({"checkpoints { order { number: 1 state: PENDING } in_progress: 120 }",
              "checkpoints { order { number: 1 state: COMPLETE step: 120 } blocked_s: 0.012 "
              "durable_s: 0.93 }"});
  const Ran ran = Paceline({"checkpoint", "save", "small", "--now"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, absl::StrCat("small/120: 2.0 KiB in ", stored_,
                                  "; training stood still for 12 ms, durable after 0.93 s\n"));
  ASSERT_THAT(controller_.saves(), SizeIs(1));
  EXPECT_EQ(controller_.saves()[0].job(), "small");
  EXPECT_TRUE(controller_.saves()[0].now());
  EXPECT_THAT(controller_.saves()[0].request_id(), SizeIs(36));
}

TEST_F(CheckpointTest, SaveThatFailedIsToldWithItsReason) {
  WatchShows({"checkpoints { order { number: 1 state: FAILED error: 'rank 1: disk full' } }"});
  const Ran ran = Paceline({"checkpoint", "save", "small"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.err, HasSubstr("nothing was saved: rank 1: disk full"));
  EXPECT_THAT(ran.out, IsEmpty());
}

TEST_F(CheckpointTest, SaveEndsWhenTheJobDoes) {
  WatchShows({"state: FAILED checkpoints { order { number: 1 state: PENDING } }"});
  const Ran ran = Paceline({"checkpoint", "save", "small"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.err, HasSubstr("ended as FAILED before the checkpoint was complete"));
}

TEST_F(CheckpointTest, SaveThatAnotherFollowedEndsAsThatDoes) {
  const std::string later =
      "checkpoints { order { number: 2 state: PENDING reason: 'asked for by a user' } }";
  WatchShows({later, later, "checkpoints { order { number: 2 state: COMPLETE step: 120 } }"});
  const Ran ran = Paceline({"checkpoint", "save", "small"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_THAT(ran.out, StartsWith("small/120: "));
  EXPECT_EQ(ran.err,
            "asked small (job-0123456789ab) for a checkpoint\n"
            "a later save, asked for by a user, takes the place of this one\n");

  WatchShows({"checkpoints { order { number: 2 state: FAILED error: 'disk full' } }"});
  const Ran failed = Paceline({"checkpoint", "save", "small"});
  EXPECT_EQ(failed.exit, kCliFailed);
  EXPECT_THAT(failed.err, HasSubstr("nothing was saved: disk full"));
}

TEST_F(CheckpointTest, SaveWaitsNoLongerThanItMay) {
  WatchShows({"checkpoints { order { number: 1 state: PENDING } }"});
  const Ran ran = Paceline({"checkpoint", "save", "small", "--for", "0.2"});
  EXPECT_EQ(ran.exit, kCliTimeout);
  EXPECT_THAT(ran.err, HasSubstr("it goes on"));
}

TEST_F(CheckpointTest, SaveNeedNotBeWaitedFor) {
  const Ran ran = Paceline({"checkpoint", "save", kId, "--no-wait", "--request-id", "mine"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "asked small (job-0123456789ab) for a checkpoint\n");
  EXPECT_THAT(controller_.watches(), IsEmpty());
  EXPECT_FALSE(controller_.saves()[0].now());
  EXPECT_EQ(controller_.saves()[0].request_id(), "mine");
  EXPECT_EQ(Paceline({"checkpoint", "save", kId, "--no-wait", "--for", "2"}).exit, kCliUsage);
}

TEST_F(CheckpointTest, SaveThatIsRefusedIsTold) {
  controller_.FailNext(Refused("small has no directory for checkpoints", "CHECKPOINTS_OFF"));
  const Ran ran = Paceline({"checkpoint", "save", "small"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_EQ(ran.err, "error: small has no directory for checkpoints\n");
  EXPECT_THAT(controller_.watches(), IsEmpty());
}

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
  // The checkpoint alone.
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
}

TEST_F(CheckpointTest, PathOfTheManifestIsThatOfItsDirectory) {
  Store();
  const Ran ran = Paceline({"checkpoint", "describe", stored_ + "/manifest.json"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(absl::StrCat("\nDirectory:  ", stored_, "\n")));
}

TEST_F(CheckpointTest, PathOfNothingIsTold) {
  const Ran ran = Paceline({"checkpoint", "verify", "/nosuch"});
  EXPECT_EQ(ran.exit, kCliNotFound);
  EXPECT_EQ(ran.err, "error: there is no directory /nosuch\n");
}

TEST_F(CheckpointTest, DeleteAndPinTakeNoPath) {
  for (const char* verb : {"delete", "pin", "unpin"}) {
    const Ran ran = Paceline({"checkpoint", verb, "./w"});
    EXPECT_EQ(ran.exit, kCliUsage);
    EXPECT_EQ(ran.err, "error: pin, unpin and delete take JOB/STEP, not a path\n");
  }
  EXPECT_THAT(controller_.pins(), IsEmpty());
  EXPECT_THAT(controller_.deletes(), IsEmpty());
}

TEST_F(CheckpointTest, ExportFlagsAreChecked) {
  EXPECT_EQ(Paceline({"checkpoint", "export", "small"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"checkpoint", "export", "s", "--to", "o", "--dtype", "int8"}).exit,
            kCliUsage);
  EXPECT_EQ(Paceline({"checkpoint", "export", "s", "--to", "o", "--max-shard-size", "0"}).exit,
            kCliUsage);
}

TEST_F(CheckpointTest, DeleteAndPinAreSentAsTheyAreNamed) {
  const Ran deleted = Paceline({"checkpoint", "delete", "small/60", "--force"});
  EXPECT_EQ(deleted.exit, kCliOk) << deleted.err;
  EXPECT_EQ(deleted.out, absl::StrCat("small/60 (", stored_, ") is being removed\n"));
  ASSERT_THAT(controller_.deletes(), SizeIs(1));
  EXPECT_EQ(controller_.deletes()[0].checkpoint(), "small/60");
  EXPECT_TRUE(controller_.deletes()[0].force());

  EXPECT_EQ(Paceline({"checkpoint", "pin", "small/60"}).out,
            "small/60 is pinned: it is kept until it is unpinned\n");
  EXPECT_EQ(Paceline({"checkpoint", "unpin", "small/60"}).out, "small/60 is not pinned\n");
  ASSERT_THAT(controller_.pins(), SizeIs(2));
  EXPECT_TRUE(controller_.pins()[0].pinned());
  EXPECT_FALSE(controller_.pins()[1].pinned());
  EXPECT_NE(controller_.pins()[0].request_id(), controller_.pins()[1].request_id());
}

TEST_F(CheckpointTest, DeletionThatIsRefusedIsTold) {
  controller_.FailNext(Refused("it is pinned: unpin it first", "CHECKPOINT_PINNED"));
  const Ran ran = Paceline({"checkpoint", "delete", "small/60"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_EQ(ran.err, "error: it is pinned: unpin it first\n");
}

}  // namespace
}  // namespace paceline
