// What changes jobs (`job ladder`, `mode`, `profile`, `resume`, `cancel --save`, `submit --from`),
// and what is seen of it, against a controller on a real socket.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kId[] = "job-0123456789ab";

grpc::Status Invalid(const std::string& field, const std::string& description) {
  google::rpc::BadRequest request;
  google::rpc::BadRequest::FieldViolation& violation = *request.add_field_violations();
  violation.set_field(field);
  violation.set_description(description);
  google::rpc::Status whole;
  whole.add_details()->PackFrom(request);
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the job cannot be",
                      whole.SerializeAsString());
}

class JobChangesTest : public CommandTest {
 protected:
  JobChangesTest() { controller_.SetJobs({Job(1, "")}); }

  // Two ranks of a running hsgd job, epoch 1 since step 0; `changes` in protobuf's text format.
  static v1::Job Job(int64_t revision, const std::string& changes) {
    v1::Job job;
    const std::string text = R"(
      id: "job-0123456789ab" state: RUNNING spec { name: "small" ranks: 2 steps: 100 }
      plan { epoch: 1 active_epoch: 1
             strategy { hsgd { ladder { period: 2 size: 1 } ladder { period: 4 level: SCOPE_ALL } } } }
      ranks { rank: 0 node: "w0" } ranks { rank: 1 node: "w1" } )";
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
    v1::Job more;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(changes, &more)) << changes;
    if (more.ranks_size() > 0) job.clear_ranks();
    job.MergeFrom(more);
    job.set_revision(revision);
    return job;
  }

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

  void WatchShows(const std::vector<std::string>& changes) {
    StreamScript<v1::JobEvent> script;
    int64_t revision = 1;
    for (const std::string& change : changes) {
      v1::JobEvent& event = script.messages.emplace_back();
      event.set_type(v1::MODIFIED);
      *event.mutable_job() = Job(++revision, change);
      event.set_revision(revision);
    }
    controller_.AddWatch(std::move(script));
  }
};

TEST_F(JobChangesTest, WhyTellsALinePerObstacle) {
  controller_.SetJobs({Job(1, "reason: 'It waits for 2 slots.'")});
  EXPECT_EQ(Paceline({"job", "why", "small"}).out, "It waits for 2 slots.\n");
  controller_.SetJobs({Job(1, "")});
  const Ran ran = Paceline({"job", "why", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "Nothing is in its way.\n");
}

TEST_F(JobChangesTest, LadderWithoutAnArgumentIsShown) {
  const Ran ran = Paceline({"job", "ladder", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "small (job-0123456789ab): hsgd 2:1,4:all, epoch 1, since step 0\n");
  EXPECT_THAT(controller_.ladders(), IsEmpty());
}

TEST_F(JobChangesTest, LadderIsSentAsItIsWritten) {
  const Ran ran = Paceline({"job", "ladder", kId, "2:node,4:rack:int8,8:all:int8"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "small (job-0123456789ab): hsgd 2:node,4:rack:int8,8:all:int8, epoch 2, not taken up "
            "yet: epoch 1 since step 0\n");
  ASSERT_THAT(controller_.ladders(), SizeIs(1));
  const v1::ChangeLadderRequest request = controller_.ladders()[0];
  EXPECT_EQ(request.job(), kId);
  EXPECT_THAT(request.request_id(), SizeIs(36));
  ASSERT_EQ(request.ladder_size(), 3);
  EXPECT_EQ(request.ladder(1).period(), 4);
  EXPECT_EQ(request.ladder(1).level(), v1::SCOPE_RACK);
  EXPECT_EQ(request.ladder(2).format(), v1::WIRE_FORMAT_INT8);
}

TEST_F(JobChangesTest, LadderCanBeGivenUpForSynchronousSteps) {
  const Ran ran = Paceline({"job", "ladder", kId, "synchronous"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("hsgd synchronous, epoch 2"));
  ASSERT_THAT(controller_.ladders(), SizeIs(1));
  EXPECT_THAT(controller_.ladders()[0].ladder(), IsEmpty());
}

TEST_F(JobChangesTest, LadderThatIsNoneIsWrongUsageAndNotSent) {
  const Ran ran = Paceline({"job", "ladder", kId, "2:2,x"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("\"x\" is no level"));
  EXPECT_EQ(Paceline({"job", "ladder", kId, "--wait"}).exit, kCliUsage);
  EXPECT_THAT(controller_.ladders(), IsEmpty());
}

TEST_F(JobChangesTest, RefusalOfALadderIsTold) {
  controller_.FailNext(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "epoch 2 is pending"));
  const Ran ran = Paceline({"job", "ladder", kId, "2:2"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, HasSubstr("epoch 2 is pending"));
}

TEST_F(JobChangesTest, WaitEndsWhenAllRanksTrainByTheLadder) {
  WatchShows({"plan { epoch: 2 }", "plan { epoch: 2 active_epoch: 2 active_since_step: 128 }"});
  const Ran ran = Paceline({"job", "ladder", kId, "2:2", "--wait"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("epoch 2, since step 128\n"));
}

TEST_F(JobChangesTest, LadderOfAPeriodIsShownAsOneLevel) {
  v1::Job job = Job(1, "");
  job.mutable_plan()->mutable_strategy()->mutable_local_sgd()->set_period(8);
  controller_.SetJobs({job});
  const Ran ran = Paceline({"job", "ladder", kId});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "small (job-0123456789ab): local_sgd 8:all, epoch 1, since step 0\n");
}

TEST_F(JobChangesTest, WaitFailsWhenARankCannotPrepareTheLadder) {
  // Of an epoch before, and of this one.
  WatchShows({R"(plan { epoch: 2 } ranks { rank: 1 plan { failed_epoch: 1 error: "old" } })",
              R"(plan { epoch: 2 } ranks { rank: 1 plan { failed_epoch: 2 error: "late" } })"});
  const Ran ran = Paceline({"job", "ladder", kId, "2:2", "--wait"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("epoch 1 since step 0; rank 1 could not prepare it: late\n"));
  EXPECT_THAT(ran.err, HasSubstr("epoch 2 is not taken up: rank 1 could not prepare it: late"));
}

TEST_F(JobChangesTest, WaitFailsWhenTheJobEndsBefore) {
  WatchShows({"plan { epoch: 2 } state: SUCCEEDED"});
  const Ran ran = Paceline({"job", "ladder", kId, "2:2", "--wait"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.err, HasSubstr("ended before its ranks took epoch 2 up"));
}

TEST_F(JobChangesTest, ModeIsShownAndSentAsItIsWritten) {
  v1::Job job = Job(1, "");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "slipstream { mode: SLIPSTREAM_FREE window { min_steps: 1 max_steps: 64 max_cap: 256 } }",
      job.mutable_plan()->mutable_strategy()));
  controller_.SetJobs({job});
  Ran ran = Paceline({"job", "mode", "small"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "small (job-0123456789ab): slipstream free, window 1:64:256, epoch 1, since step 0\n");
  EXPECT_THAT(controller_.modes(), IsEmpty());

  ran = Paceline({"job", "mode", kId, "pause", "--window", "2:16", "--optimizer-state", "average"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("epoch 2, not taken up yet: epoch 1 since step 0\n"));
  ran = Paceline({"job", "mode", kId, "drop", "--request-id", "mine"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("slipstream drop, epoch 2"));
  ASSERT_THAT(controller_.modes(), SizeIs(2));
  EXPECT_EQ(controller_.modes()[0].mode(), v1::SLIPSTREAM_PAUSE);
  EXPECT_EQ(controller_.modes()[0].window().max_steps(), 16);
  EXPECT_EQ(controller_.modes()[0].optimizer_state(), v1::OPTIMIZER_STATE_AVERAGE);
  EXPECT_EQ(controller_.modes()[1].mode(), v1::SLIPSTREAM_DROP);
  EXPECT_EQ(controller_.modes()[1].request_id(), "mine");
  EXPECT_FALSE(controller_.modes()[1].has_window());
}

TEST_F(JobChangesTest, ModeThatIsNoneIsWrongUsageAndNotSent) {
  EXPECT_EQ(Paceline({"job", "mode", kId, "fast"}).exit, kCliUsage);
  EXPECT_THAT(Paceline({"job", "mode", kId, "--window", "4"}).err, HasSubstr("is no window"));
  const Ran ran = Paceline({"job", "mode", kId, "--wait"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("nothing is to be changed"));
  EXPECT_THAT(controller_.modes(), IsEmpty());
}

TEST_F(JobChangesTest, WaitEndsWhenAllRanksTrainInTheMode) {
  WatchShows({"plan { epoch: 2 }", "plan { epoch: 2 active_epoch: 2 active_since_step: 128 }"});
  const Ran ran = Paceline({"job", "mode", kId, "free", "--wait"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("epoch 2, since step 128\n"));
}

TEST_F(JobChangesTest, ProfileWaitsForTheRanksAndShowsTheirFiles) {
  const std::string request = "profile { request { id: 1 first_step: 40 steps: 2 } ranks: 1 } ";
  WatchShows({request, request + R"(ranks { rank: 1 node: "w1"
      profile { id: 1 trace: "/p/rank1.json" first_step: 40 steps: 2 trace_bytes: 10 } })"});
  const Ran ran = Paceline({"job", "profile", kId, "--steps", "2", "--ranks", "1"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "RANK  NODE  STEPS  SIZE   DUMP  FILE           ERROR\n"
            "   1  w1    40-41  10 B  0.0 s  /p/rank1.json  -\n");
  EXPECT_THAT(ran.err, HasSubstr("steps 40 to 41 on ranks 1"));
  ASSERT_THAT(controller_.profiles(), SizeIs(1));
  EXPECT_EQ(controller_.profiles()[0].steps(), 2);
  EXPECT_THAT(controller_.profiles()[0].ranks(), ElementsAre(1));
  EXPECT_FALSE(controller_.profiles()[0].memory());
}

TEST_F(JobChangesTest, ProfileFailsWhenARankDoes) {
  const std::string request =
      "profile { request { id: 1 first_step: 40 steps: 3 } ranks: [0, 1] } ";
  WatchShows({request + R"(ranks { rank: 0 profile { id: 1 trace: "/p" steps: 3 } }
                           ranks { rank: 1 profile { id: 1 error: "no space" } })"});
  const Ran ran = Paceline({"job", "profile", kId, "--ranks", "0-1", "--output", "json"});
  EXPECT_EQ(ran.exit, kCliFailed);
  v1::Job job;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(ran.out, &job).ok()) << ran.out;
  EXPECT_EQ(job.ranks(1).profile().error(), "no space");
}

TEST_F(JobChangesTest, ProfileOfAJobThatEndsBeforeFails) {
  WatchShows({"profile { request { id: 1 steps: 3 } ranks: 0 } state: FAILED"});
  const Ran ran = Paceline({"job", "profile", kId, "--ranks", "0"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("none"));
}

TEST_F(JobChangesTest, ProfileNeedNotBeWaitedFor) {
  const Ran ran = Paceline({"job", "profile", kId, "--no-wait", "--ranks", "0,1", "--memory"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "profile 1 of small (job-0123456789ab): steps 40 to 42 on ranks 0,1\n");
  EXPECT_TRUE(controller_.profiles().at(0).memory());
  EXPECT_EQ(Paceline({"job", "profile", kId, "--ranks", "x"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "profile", kId, "--steps", "101"}).exit, kCliUsage);
}

TEST_F(JobChangesTest, ResumeSendsWhatChanges) {
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

TEST_F(JobChangesTest, ResumeMayBeFollowedAndChangesNothingByItself) {
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

TEST_F(JobChangesTest, ResumeThatCannotBeIsNotSent) {
  EXPECT_EQ(Paceline({"job", "resume", kId, "--ladder", "2:"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "resume", kId, "--ranks", "0"}).exit, kCliUsage);
  EXPECT_THAT(controller_.resumes(), IsEmpty());
  controller_.FailNext(Refused("small runs", "JOB_NOT_ENDED"));
  EXPECT_THAT(Paceline({"job", "resume", kId}).err, HasSubstr("cancel --save"));
}

TEST_F(JobChangesTest, ResumeTellsAChangedGlobalBatch) {
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

TEST_F(JobChangesTest, ResumeWhoseLadderDoesNotFitNamesTheFlag) {
  controller_.FailNext(Invalid("strategy.hsgd.ladder[1].size", "is 4, and there are 3 ranks"));
  const Ran ran = Paceline({"job", "resume", kId, "--ranks", "3"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("is 4, and there are 3 ranks\n  --ladder gives the job one that"));
  controller_.FailNext(Invalid("steps", "is 3, and 60 are done"));
  EXPECT_THAT(Paceline({"job", "resume", kId, "--steps", "3"}).err, Not(HasSubstr("--ladder")));
}

TEST_F(JobChangesTest, StartThatCannotBeUsedIsNotSent) {
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

TEST_F(JobChangesTest, StartThatIsNotHereIsLeftToTheNodes) {
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

TEST_F(JobChangesTest, WeightsThatAreHereAreSent) {
  const std::string layout = Folder("layout");
  std::ofstream(layout + "/model.safetensors") << "x";
  const Ran ran = Paceline({"submit", JobFile(), "--from-weights", layout});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.err, Not(HasSubstr("cannot be read")));
}

TEST_F(JobChangesTest, SubmitBeginsFromWhatAFlagNames) {
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

TEST_F(JobChangesTest, CancelMaySaveFirst) {
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

TEST_F(JobChangesTest, JobListShowsTheNewestCheckpoint) {
  EXPECT_THAT(Paceline({"job", "list"}).out, Not(HasSubstr("CHECKPOINT")));
  controller_.SetJobs({Job(1, "checkpoints { complete: 2 newest_step: 60 }")});
  const Ran ran = Paceline({"job", "list"});
  EXPECT_THAT(ran.out, HasSubstr("CHECKPOINT  REASON\n"));
  EXPECT_THAT(ran.out, HasSubstr("         60  -\n"));
}

TEST_F(JobChangesTest, FollowTellsEachRestart) {
  WatchShows({"restarts: 1 spec { max_restarts: 3 } restart_reason: 'old'",
              "restarts: 2 spec { max_restarts: 3 } restart_reason: 'rank 1 on w0: killed'",
              "restarts: 2 spec { max_restarts: 3 } restart_reason: 'rank 1 on w0: killed'",
              "state: SUCCEEDED restarts: 2"});
  const Ran ran = Paceline({"job", "watch", kId});
  EXPECT_THAT(ran.out, HasSubstr("restart 2 of 3: rank 1 on w0: killed\n"));
  EXPECT_EQ(ran.out.find("killed"), ran.out.rfind("killed"));
  EXPECT_THAT(ran.out, Not(HasSubstr("old")));
}

TEST_F(JobChangesTest, JobWhoseCheckpointIsDamagedEndsWithTheAdviceOfTheReason) {
  WatchShows({R"(state: FAILED checkpoints { complete: 1 newest_step: 60 }
                 reason: "the checkpoint cannot be used: run paceline job resume job-1 --from x/60"
                 failure { node: "w0" exit { failure: FAILURE_RESTORE exit_code: 1 } })"});
  const Ran ran = Paceline({"job", "wait", kId});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, EndsWith("cannot be used: run paceline job resume job-1 --from x/60\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("      paceline job resume")));
}

TEST_F(JobChangesTest, JobThatFailedCanBeResumed) {
  WatchShows({"state: FAILED checkpoints { complete: 1 newest_step: 60 }"});
  const Ran ran = Paceline({"job", "watch", kId});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("      paceline job resume job-0123456789ab\n"));
}

}  // namespace
}  // namespace paceline
