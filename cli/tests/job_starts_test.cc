// Where a job starts from (`job resume`, `submit --from`), and what it leaves for that (`cancel
// --save`), against a controller on a real socket.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/testing/fake_errors.h"
#include "cli/testing/small_job_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class JobStartsTest : public SmallJobTest {
 protected:
  static std::string JobFile() {
    const std::string file = ::testing::TempDir() + "/job.yaml";
    std::ofstream(file) << "name: small\nmodel: resnet18\ndata: {train: t}\nsteps: 100\n"
                           "optimizer: {kind: sgd, learning_rate: 0.1}\ninit_from: /weights\n";
    return file;
  }

  static std::string Folder(const std::string& name) {
    const std::string folder = ::testing::TempDir() + "/" + name;
    std::filesystem::create_directories(folder);
    return folder;
  }
};

TEST_F(JobStartsTest, ResumeSendsWhatChanges) {
  const Ran ran =
      Paceline({"job", "resume", "small", "--from", "small/60", "--ranks", "1", "--batch-per-rank",
                "8", "--accumulation-steps", "2", "--steps", "300", "--ladder", "2:2,4:all"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "resumed small (job-0123456789ab)\n");
  EXPECT_THAT(ran.err, HasSubstr("paceline job watch"));
  ASSERT_THAT(controller_.resumes(), SizeIs(1));
  const v1::ResumeJobRequest request = controller_.resumes()[0];
  EXPECT_EQ(request.job(), "small");
  EXPECT_EQ(request.from(), "small/60");
  EXPECT_EQ(request.ranks(), 1);
  EXPECT_EQ(request.batch_per_rank(), 8);
  EXPECT_EQ(request.accumulation_steps(), 2);
  EXPECT_EQ(request.steps(), 300);
  EXPECT_THAT(request.ladder(), SizeIs(2));
  EXPECT_THAT(request.request_id(), SizeIs(36));
}

TEST_F(JobStartsTest, ResumeMayBeFollowedAndChangesNothingByItself) {
  WatchShows({"progress { step: 50 }", "state: SUCCEEDED progress { step: 100 }"});
  const Ran ran = Paceline({"job", "resume", kId, "--follow", "--from", "./c/../d"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("SUCCEEDED: 100 of 100 steps"));
  const v1::ResumeJobRequest request = controller_.resumes()[0];
  EXPECT_EQ(request.from(), std::filesystem::current_path().string() + "/d");
  EXPECT_EQ(request.ranks(), 0);
  EXPECT_EQ(request.steps(), 0);
  EXPECT_THAT(request.ladder(), IsEmpty());
}

TEST_F(JobStartsTest, ResumeThatCannotBeIsNotSent) {
  EXPECT_EQ(Paceline({"job", "resume", kId, "--ladder", "2:"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "resume", kId, "--ranks", "0"}).exit, kCliUsage);
  EXPECT_THAT(controller_.resumes(), IsEmpty());
  controller_.FailNext(Refused("small runs", "JOB_NOT_ENDED"));
  EXPECT_THAT(Paceline({"job", "resume", kId}).err, HasSubstr("cancel --save"));
}

TEST_F(JobStartsTest, ResumeTellsAChangedGlobalBatch) {
  controller_.SetJobs({Job(1, "spec { batch_per_rank: 16 }")});
  const std::string change =
      "the global batch was 32 (2 ranks x 16 x 1) and is now 16 (1 rank x 16 x 1); "
      "--accumulation-steps 2 or --batch-per-rank 32 keeps it\n";
  EXPECT_THAT(Paceline({"job", "resume", kId, "--ranks", "1"}).err, HasSubstr(change));
  const Ran same = Paceline({"job", "resume", kId, "--ranks", "1", "--batch-per-rank", "32"});
  EXPECT_EQ(same.exit, kCliOk) << same.err;
  EXPECT_THAT(same.err, Not(HasSubstr("global batch")));
  EXPECT_THAT(Paceline({"job", "resume", kId}).err, Not(HasSubstr("global batch")));
}

TEST_F(JobStartsTest, ResumeTellsThatMoreStepsStretchTheSchedule) {
  controller_.SetJobs({Job(1, "spec { steps: 150 schedule { cosine {} } }")});
  EXPECT_THAT(Paceline({"job", "resume", kId, "--steps", "600"}).err,
              HasSubstr("the learning rate jumps: its cosine now ends after step 600 instead of "
                        "150; `job resume --keep-schedule` leaves the end where it was\n"));
  const Ran kept = Paceline({"job", "resume", kId, "--steps", "600", "--keep-schedule"});
  EXPECT_EQ(kept.exit, kCliOk) << kept.err;
  EXPECT_THAT(kept.err, Not(HasSubstr("learning rate")));
  EXPECT_TRUE(controller_.resumes().back().keep_schedule());
  EXPECT_THAT(Paceline({"job", "resume", kId}).err, Not(HasSubstr("learning rate")));
  controller_.SetJobs({Job(1, "spec { steps: 150 schedule { constant {} } }")});
  EXPECT_THAT(Paceline({"job", "resume", kId, "--steps", "600"}).err,
              Not(HasSubstr("learning rate")));
}

TEST_F(JobStartsTest, ResumeTellsThatTheLearningRateIsNowThatOfOtherRanks) {
  controller_.SetJobs(
      {Job(1, "spec { ranks: 8 schedule { scale_with_ranks: RANK_SCALE_LINEAR } }")});
  EXPECT_THAT(
      Paceline({"job", "resume", kId, "--ranks", "2"}).err,
      HasSubstr("optimizer.learning_rate is now that of 2 ranks instead of 8 "
                "(schedule.scale_with_ranks), so any number of ranks has 4 times the rate"));
  EXPECT_THAT(Paceline({"job", "resume", kId, "--ranks", "8"}).err, Not(HasSubstr("learning")));
  EXPECT_THAT(Paceline({"job", "resume", kId}).err, Not(HasSubstr("learning")));
  controller_.SetJobs({Job(1, "spec { ranks: 8 schedule { scale_with_ranks: RANK_SCALE_SQRT } }")});
  EXPECT_THAT(Paceline({"job", "resume", kId, "--ranks", "2"}).err, HasSubstr("has 2 times"));
  controller_.SetJobs({Job(1, "spec { ranks: 8 schedule { scale_with_ranks: RANK_SCALE_NONE } }")});
  EXPECT_THAT(Paceline({"job", "resume", kId, "--ranks", "2"}).err, Not(HasSubstr("learning")));
}

TEST_F(JobStartsTest, ResumeWhoseLadderDoesNotFitNamesTheFlag) {
  controller_.FailNext(Invalid("strategy.hsgd.ladder[1].size", "is 4, and there are 3 ranks"));
  const Ran ran = Paceline({"job", "resume", kId, "--ranks", "3"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("is 4, and there are 3 ranks\n  --ladder gives the job one that"));
  controller_.FailNext(Invalid("steps", "is 3, and 60 are done"));
  EXPECT_THAT(Paceline({"job", "resume", kId, "--steps", "3"}).err, Not(HasSubstr("--ladder")));
}

TEST_F(JobStartsTest, StartThatCannotBeUsedIsNotSent) {
  const std::string empty = Folder("empty");
  const Ran resumed = Paceline({"job", "resume", kId, "--from", empty});
  EXPECT_EQ(resumed.exit, kCliNotFound);
  EXPECT_THAT(resumed.err, HasSubstr("there is no manifest.json in it"));
  const std::string damaged = Folder("damaged");
  std::ofstream(damaged + "/manifest.json") << "{}";
  EXPECT_EQ(Paceline({"job", "resume", kId, "--from", damaged}).exit, kCliFailed);
  EXPECT_EQ(Paceline({"submit", JobFile(), "--from", empty}).exit, kCliNotFound);
  const Ran weights = Paceline({"submit", JobFile(), "--from-weights", empty});
  EXPECT_EQ(weights.exit, kCliNotFound);
  EXPECT_THAT(weights.err, HasSubstr("holds no weights"));
  EXPECT_THAT(controller_.resumes(), IsEmpty());
  EXPECT_THAT(controller_.submits(), IsEmpty());
}

TEST_F(JobStartsTest, StartThatIsNotHereIsLeftToTheNodes) {
  const std::string note = "cannot be read on this machine; the nodes have to\n";
  const Ran resumed = Paceline({"job", "resume", kId, "--from", "/nowhere/step-1.g1"});
  EXPECT_EQ(resumed.exit, kCliOk);
  EXPECT_THAT(resumed.err, HasSubstr("/nowhere/step-1.g1 " + note));
  EXPECT_THAT(Paceline({"job", "resume", kId, "--from", "/nowhere/c/manifest.json"}).err,
              HasSubstr("/nowhere/c " + note));
  EXPECT_THAT(Paceline({"submit", JobFile(), "--from-weights", "/nowhere/w"}).err, HasSubstr(note));
  EXPECT_EQ(controller_.resumes().at(1).from(), "/nowhere/c");
  EXPECT_THAT(controller_.submits(), SizeIs(1));
}

TEST_F(JobStartsTest, WeightsThatAreHereAreSent) {
  const std::string layout = Folder("layout");
  std::ofstream(layout + "/model.safetensors") << "x";
  const Ran ran = Paceline({"submit", JobFile(), "--from-weights", layout});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("cannot be read")));
}

TEST_F(JobStartsTest, SubmitBeginsFromWhatAFlagNames) {
  const std::string file = JobFile();
  ASSERT_EQ(Paceline({"submit", file}).exit, kCliOk);
  ASSERT_EQ(Paceline({"submit", file, "--from", "small/60"}).exit, kCliOk);
  ASSERT_EQ(Paceline({"submit", file, "--from", "/srv/c/./step-000000000060.g1/"}).exit, kCliOk);
  ASSERT_EQ(Paceline({"submit", file, "--from-weights", "w"}).exit, kCliOk);
  EXPECT_EQ(Paceline({"submit", file, "--from", "a", "--from-weights", "w"}).exit, kCliUsage);
  const std::vector<v1::SubmitJobRequest> requests = controller_.submits();
  ASSERT_THAT(requests, SizeIs(4));
  EXPECT_EQ(requests[0].spec().init_from(), "/weights");
  EXPECT_EQ(requests[1].spec().init_from(), "");
  EXPECT_EQ(requests[1].spec().resume_from(), "small/60");
  EXPECT_EQ(requests[2].spec().resume_from(), "/srv/c/step-000000000060.g1");
  EXPECT_EQ(requests[3].spec().resume_from(), "");
  EXPECT_EQ(requests[3].spec().init_from(), std::filesystem::current_path().string() + "/w");
}

TEST_F(JobStartsTest, CancelMaySaveFirst) {
  for (int i = 0; i < 2; ++i) {
    const Ran ran = Paceline({"job", "cancel", kId, "--save"});
    EXPECT_EQ(ran.exit, kCliOk);
    EXPECT_EQ(ran.out,
              "small (job-0123456789ab) saves a checkpoint and then ends; until then it is "
              "RUNNING\n");
    EXPECT_EQ(ran.err, "next: paceline job watch job-0123456789ab\n");
  }
  EXPECT_EQ(Paceline({"job", "cancel", kId}).out, "small (job-0123456789ab) is STOPPING\n");
  EXPECT_TRUE(controller_.cancels()[0].save());
  EXPECT_FALSE(controller_.cancels()[2].save());
}

TEST_F(JobStartsTest, JobListShowsTheNewestCheckpoint) {
  EXPECT_THAT(Paceline({"job", "list"}).out, Not(HasSubstr("CHECKPOINT")));
  controller_.SetJobs({Job(1, "checkpoints { complete: 2 newest_step: 60 }")});
  const Ran ran = Paceline({"job", "list"});
  EXPECT_THAT(ran.out, HasSubstr("CHECKPOINT  REASON\n"));
  EXPECT_THAT(ran.out, HasSubstr("         60  -\n"));
}

TEST_F(JobStartsTest, FollowTellsEachRestart) {
  WatchShows({"restarts: 1 spec { max_restarts: 3 } restart_reason: 'old'",
              "restarts: 2 spec { max_restarts: 3 } restart_reason: 'rank 1 on w0: killed'",
              "restarts: 2 spec { max_restarts: 3 } restart_reason: 'rank 1 on w0: killed'",
              "state: SUCCEEDED restarts: 2"});
  const Ran ran = Paceline({"job", "watch", kId});
  EXPECT_THAT(ran.out, HasSubstr("restart 2 of 3: rank 1 on w0: killed\n"));
  EXPECT_EQ(ran.out.find("killed"), ran.out.rfind("killed"));
  EXPECT_THAT(ran.out, Not(HasSubstr("old")));
}

TEST_F(JobStartsTest, FollowTellsWhenSavesBeginToFailAndWhenTheyWorkAgain) {
  const char* const fails = "state: RUNNING checkpoints { last_error: 'rank 1 on w0: disk full' }";
  WatchShows({"state: RUNNING", fails, fails,
              "state: RUNNING checkpoints { complete: 1 newest_step: 30 }",
              "state: SUCCEEDED checkpoints { complete: 1 newest_step: 30 }"});
  const Ran ran = Paceline({"job", "watch", kId});
  const std::string reported =
      "checkpoints cannot be saved (there is none): rank 1 on w0: disk full\n";
  EXPECT_THAT(ran.out, HasSubstr(reported));
  EXPECT_EQ(ran.out.find(reported), ran.out.rfind(reported));
  EXPECT_THAT(ran.out, HasSubstr("checkpoints are saved again: step 30\n"));
}

TEST_F(JobStartsTest, FollowTellsWhenCopiesBecomeLateAndWhenTheyAreInTimeAgain) {
  WatchShows({"state: RUNNING", "state: RUNNING copies { trouble: 'a loss may cost 40 steps' }",
              "state: RUNNING copies { trouble: 'a loss may cost 50 steps' }",
              "state: RUNNING copies { step: 60 }", "state: SUCCEEDED"});
  const Ran ran = Paceline({"job", "watch", kId});
  EXPECT_THAT(ran.out, HasSubstr(": a loss may cost 40 steps\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("50 steps")));
  EXPECT_THAT(ran.out, HasSubstr(": copies in host memory are in time again: step 60\n"));
}

TEST_F(JobStartsTest, FollowTellsThatTheStateIsHeldAfterTheLastStepThoughSavesFailedBefore) {
  const std::string done =
      "state: RUNNING spec { steps: 60 } progress { step: 60 } checkpoints { "
      "last_error: 'save after step 60: disk full; held until 18:00:00' }";
  WatchShows(
      {"state: RUNNING spec { steps: 60 } progress { step: 30 } checkpoints { last_error: "
       "'save after step 30: disk full' }",
       done, done, "state: SUCCEEDED"});
  const Ran ran = Paceline({"job", "watch", kId});
  EXPECT_THAT(ran.out, HasSubstr("save after step 30: disk full\n"));
  EXPECT_THAT(ran.out, HasSubstr("held until 18:00:00\n"));
  EXPECT_EQ(ran.out.find("held until"), ran.out.rfind("held until"));
}

TEST_F(JobStartsTest, JobWhoseCheckpointIsDamagedEndsWithTheAdviceOfTheReason) {
  WatchShows({R"(state: FAILED checkpoints { complete: 1 newest_step: 60 }
                 reason: "the checkpoint cannot be used: run paceline job resume job-1 --from x/60"
                 failure { node: "w0" exit { failure: FAILURE_RESTORE exit_code: 1 } })"});
  const Ran ran = Paceline({"job", "wait", kId});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, EndsWith("cannot be used: run paceline job resume job-1 --from x/60\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("      paceline job resume")));
}

TEST_F(JobStartsTest, JobThatFailedCanBeResumed) {
  WatchShows({"state: FAILED checkpoints { complete: 1 newest_step: 60 }"});
  const Ran ran = Paceline({"job", "watch", kId});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("      paceline job resume job-0123456789ab\n"));
}

}  // namespace
}  // namespace paceline
