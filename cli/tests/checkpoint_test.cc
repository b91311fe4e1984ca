// The verbs about checkpoints against a controller on a real socket and real files.
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
#include "cli/testing/fake_errors.h"
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

constexpr char kOlderId[] = "job-ba9876543210";

TEST_F(CheckpointTest, ListedNamesCanBeTypedBack) {
  // Includes an older job of the same name, and a step that two generations saved.
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

TEST_F(CheckpointTest, SaveElsewhereNamesTheWholeDirectory) {
  EXPECT_EQ(Paceline({"checkpoint", "save", kId, "--no-wait", "--to", "/mnt/spare/"}).exit, kCliOk);
  EXPECT_EQ(Paceline({"checkpoint", "save", kId, "--no-wait", "--to", "spare"}).exit, kCliOk);
  EXPECT_EQ(Paceline({"checkpoint", "save", kId, "--no-wait"}).exit, kCliOk);
  ASSERT_THAT(controller_.saves(), SizeIs(3));
  EXPECT_EQ(controller_.saves()[0].directory(), "/mnt/spare");
  EXPECT_EQ(controller_.saves()[1].directory(), std::filesystem::current_path() / "spare");
  EXPECT_EQ(controller_.saves()[2].directory(), "");
  EXPECT_EQ(Paceline({"checkpoint", "save", kId, "--to", "~/spare"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"checkpoint", "save", kId, "--to", ""}).exit, kCliUsage);
  EXPECT_THAT(controller_.saves(), SizeIs(3));
}

TEST_F(CheckpointTest, SaveThatIsRefusedIsTold) {
  controller_.FailNext(Refused("small has no directory for checkpoints", "CHECKPOINTS_OFF"));
  const Ran ran = Paceline({"checkpoint", "save", "small"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_EQ(ran.err, "error: small has no directory for checkpoints\n");
  EXPECT_THAT(controller_.watches(), IsEmpty());
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
