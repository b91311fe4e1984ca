#include "cli/view/checkpoint/checkpoint_text.h"

#include <string>

#include "cli/testing/parsed.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1200);

std::string Lines(const std::string& job) {
  std::string page;
  AddCheckpointLines(&page, Parsed<v1::Job>(job), kNow);
  return page;
}

TEST(CheckpointTextTest, Table) {
  const auto checkpoints = Parsed<v1::ListCheckpointsResponse>(R"(
    checkpoints { job_name: "digits" step: 120 generation: 2 ranks: 4 bytes: 46871000
                  state: CHECKPOINT_COMPLETE create_time { seconds: 1080 } pinned: true }
    checkpoints { job_name: "digits" step: 60 generation: 1 ranks: 2 bytes: 512
                  state: CHECKPOINT_DAMAGED create_time { seconds: 9999 } }
  )");
  EXPECT_EQ(CheckpointTable(checkpoints, {"digits/120", "digits/60"}, kNow, {}),
            "CHECKPOINT  STEP  GEN  RANKS      SIZE         AGE  STATE     PINNED\n"
            "digits/120   120    2      4  44.7 MiB  2 min 00 s  COMPLETE  yes\n"
            "digits/60     60    1      2     512 B       0.0 s  DAMAGED   -\n");
}

TEST(CheckpointTextTest, JobWithoutCheckpointsHasNoLines) {
  EXPECT_EQ(Lines("spec { name: 'digits' }"), "");
}

TEST(CheckpointTextTest, BeforeTheFirstOne) {
  EXPECT_EQ(Lines("checkpoints { in_progress: 20 } spec { max_restarts: 3 }"),
            "Restarts:   0 of 3 after failures\n"
            "Checkpoint: none yet\n"
            "Saving:     step 20\n");
}

TEST(CheckpointTextTest, SavesThatFailAreToldWithTheirCauseWhileTheJobGoesOn) {
  v1::Job job = Parsed<v1::Job>("state: RUNNING checkpoints { last_error: 'disk full\\n' }");
  EXPECT_EQ(SaveTroubleText(job, kNow), "checkpoints cannot be saved (there is none): disk full ");
  job.mutable_checkpoints()->set_complete(2);
  job.mutable_checkpoints()->set_newest_step(40);
  job.mutable_checkpoints()->mutable_newest_time()->set_seconds(1080);
  EXPECT_EQ(SaveTroubleText(job, kNow),
            "checkpoints cannot be saved (newest: step 40, 2 min 00 s old): disk full ");
  job.set_state(v1::FAILED);
  EXPECT_EQ(SaveTroubleText(job, kNow), "");
}

TEST(CheckpointTextTest, CopiesThatAreLateAreToldWhileTheJobGoesOn) {
  v1::Job job = Parsed<v1::Job>("state: RUNNING");
  EXPECT_EQ(CopyTroubleText(job), "");
  job.mutable_copies()->set_trouble("copies are late\033[2J");
  EXPECT_EQ(CopyTroubleText(job), "copies are late\\x1b[2J");
  job.set_state(v1::FAILED);
  EXPECT_EQ(CopyTroubleText(job), "");
}

TEST(CheckpointTextTest, AllLines) {
  EXPECT_EQ(Lines(R"(
    restarts: 1 spec { max_restarts: 3 } restored_from: "/srv/a\033/step-000000000100.g1"
    checkpoints {
      complete: 3 bytes: 3145728 newest_step: 120 newest_time { seconds: 1190 } in_progress: 130
      in_progress: 140 committed: 9 failed: 1 skipped: 2 last_error: "rank 1: disk full\n"
      order { number: 1 state: PENDING reason: "asked for by a user" }
      next_time { seconds: 1240 } interval_s: 60 blocked_s: 0.012 durable_s: 0.93 } )"),
            "Restarts:   1 of 3 after failures\n"
            "Resumed:    from /srv/a\\x1b/step-000000000100.g1\n"
            "Checkpoint: step 120 (10 s ago); 3 complete, 3.0 MiB\n"
            "Saving:     step 130, step 140, one more, asked for by a user\n"
            "Last save:  training stood still for 12 ms, durable after 0.93 s\n"
            "Next save:  in 40 s, every 1 min 00 s\n"
            "Saves:      9 complete, 1 failed, 2 left out\n"
            "Save error: rank 1: disk full \n");
}

TEST(CheckpointTextTest, OverdueSaveIsNow) {
  EXPECT_EQ(Lines("checkpoints { next_time { seconds: 1100 } interval_s: 30 }"),
            "Checkpoint: none yet\nNext save:  now, every 30 s\n");
}

}  // namespace
}  // namespace paceline
