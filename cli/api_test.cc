// The verbs against a controller on a real socket.
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/exit_codes.h"
#include "cli/program.h"
#include "cli/testing/command_test.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kId[] = "job-0123456789ab";

v1::Job JobIn(v1::JobState state, int64_t revision, int64_t step = 0) {
  v1::Job job;
  job.set_id(kId);
  job.mutable_spec()->set_name("digits");
  job.mutable_spec()->set_steps(100);
  job.mutable_spec()->set_ranks(2);
  job.mutable_spec()->set_batch_per_rank(16);
  job.set_state(state);
  job.set_revision(revision);
  job.mutable_progress()->set_step(step);
  if (step > 0) {
    job.mutable_progress()->set_loss(0.5);
    job.mutable_progress()->set_samples_per_s(800);
  }
  for (int rank = 0; rank < 2 && state != v1::QUEUED; ++rank) job.add_ranks()->set_rank(rank);
  return job;
}

v1::JobEvent Event(const v1::Job& job) {
  v1::JobEvent event;
  event.set_type(v1::MODIFIED);
  *event.mutable_job() = job;
  event.set_revision(job.revision());
  return event;
}

v1::LogChunk Chunk(int64_t offset, const std::string& data) {
  v1::LogChunk chunk;
  chunk.set_offset(offset);
  chunk.set_data(data);
  return chunk;
}

// Of the trainer of rank 0 that was started for this generation.
v1::LogChunk ChunkOf(int64_t generation, const std::string& node, int64_t offset,
                     const std::string& data) {
  v1::LogChunk chunk = Chunk(offset, data);
  chunk.mutable_trainer()->set_generation(generation);
  chunk.set_node(node);
  return chunk;
}

grpc::Status Lost() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection lost"); }

class ApiTest : public CommandTest {
 protected:
  std::string JobFilePath(const std::string& more = "") {
    const std::string path = ::testing::TempDir() + "/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".yaml";
    std::ofstream(path) << "name: digits\nranks: 2\nmodel: resnet18\ndata: {train: t}\n"
                           "steps: 100\noptimizer: {kind: sgd, learning_rate: 0.1}\n"
                        << more;
    return path;
  }
};

TEST_F(ApiTest, SubmitSendsTheSpecAndTellsTheId) {
  const Ran ran = Paceline({"submit", JobFilePath()});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "submitted digits (job-0123456789ab)\n");
  EXPECT_THAT(ran.err, HasSubstr("paceline job watch job-0123456789ab"));
  ASSERT_THAT(controller_.submits(), SizeIs(1));
  const v1::SubmitJobRequest request = controller_.submits()[0];
  EXPECT_EQ(request.spec().batch_per_rank(), 32);
  EXPECT_THAT(request.request_id(), SizeIs(36));
  EXPECT_FALSE(request.validate_only());
}

TEST_F(ApiTest, ParsableSubmitPrintsOnlyTheId) {
  const Ran ran = Paceline({"submit", JobFilePath(), "--parsable", "--request-id", "r-1"});
  EXPECT_EQ(ran.out, "job-0123456789ab\n");
  EXPECT_EQ(controller_.submits().at(0).request_id(), "r-1");
}

TEST_F(ApiTest, WrongJobFileIsToldAndNothingIsSent) {
  const std::string path = JobFilePath("btach_per_rank: 4\nseed: -1\n");
  const Ran ran = Paceline({"submit", path});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_EQ(ran.err, absl::StrCat("error: ", path, " has 2 problems\n  ", path,
                                  ":7:1: unknown key \"btach_per_rank\"; did you mean "
                                  "\"batch_per_rank\"?\n  ",
                                  path, ":8:1: seed is -1; allowed is 0 and more\n"));
  EXPECT_THAT(controller_.submits(), IsEmpty());
}

TEST_F(ApiTest, DryRunAsksAndPrintsTheWholeSpec) {
  const Ran ran = Paceline({"submit", JobFilePath(), "--dry-run"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_TRUE(controller_.submits().at(0).validate_only());
  EXPECT_THAT(ran.out, HasSubstr("batch_per_rank: 32\n"));
  EXPECT_THAT(ran.err, HasSubstr("nothing was submitted"));
}

TEST_F(ApiTest, FieldThatTheServerRefusesIsToldAtItsLine) {
  google::rpc::BadRequest request;
  auto* violation = request.add_field_violations();
  violation->set_field("optimizer.sgd.momentum");
  violation->set_description("is odd");
  google::rpc::Status whole;
  whole.add_details()->PackFrom(request);
  controller_.FailNext(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the spec cannot be",
                                    whole.SerializeAsString()));
  const std::string path = JobFilePath();
  const Ran ran = Paceline({"submit", path});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr(path + ":6:1: optimizer.momentum is odd\n"));
}

TEST_F(ApiTest, JobThatCannotFitIsRefusedWithAdvice) {
  google::rpc::ErrorInfo info;
  info.set_reason("JOB_CANNOT_FIT");
  google::rpc::Status whole;
  whole.add_details()->PackFrom(info);
  controller_.FailNext(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                    "4 ranks need 4 slots; the cluster has 2",
                                    whole.SerializeAsString()));
  const Ran ran = Paceline({"submit", JobFilePath()});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, StartsWith("error: 4 ranks need 4 slots; the cluster has 2\n"));
  EXPECT_THAT(ran.err, HasSubstr("paceline node list"));
}

TEST_F(ApiTest, SubmitIsTriedAgainWithTheSameRequestId) {
  controller_.FailNext(Lost());
  const Ran ran = Paceline({"submit", JobFilePath()});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  ASSERT_THAT(controller_.submits(), SizeIs(2));
  EXPECT_EQ(controller_.submits()[0].request_id(), controller_.submits()[1].request_id());
}

TEST_F(ApiTest, FollowEndsWithASummary) {
  controller_.AddWatch({{Event(JobIn(v1::QUEUED, 1)), Event(JobIn(v1::RUNNING, 2, 50)),
                         Event(JobIn(v1::SUCCEEDED, 3, 100))},
                        std::nullopt});
  const Ran ran = Paceline({"submit", JobFilePath(), "--follow"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out,
            "submitted digits (job-0123456789ab)\n"
            "digits QUEUED\n"
            "digits RUNNING step 50/100 loss 0.5000 800 samples/s eta 2.0 s\n"
            "digits SUCCEEDED step 100/100 loss 0.5000 800 samples/s\n"
            "digits (job-0123456789ab) SUCCEEDED: 100 of 100 steps, 800 samples/s\n"
            "next: paceline job describe job-0123456789ab\n"
            "      paceline job logs job-0123456789ab\n");
}

TEST_F(ApiTest, FollowDrawsABarOnATerminalAndTakesItAwayAtTheEnd) {
  controller_.AddWatch(
      {{Event(JobIn(v1::RUNNING, 2, 50)), Event(JobIn(v1::SUCCEEDED, 3, 100))}, std::nullopt});
  const Ran ran = Paceline({"submit", JobFilePath(), "--follow", "--no-color"}, /*terminal=*/true);
  EXPECT_THAT(ran.out, HasSubstr("\rdigits  [==============>"));
  EXPECT_THAT(ran.out, HasSubstr("\r\x1b[Kdigits (job-0123456789ab) SUCCEEDED"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b[32m")));
}

TEST_F(ApiTest, FailedJobIsTheExitCodeAndItsFailureIsShown) {
  v1::Job failed = JobIn(v1::FAILED, 3, 60);
  failed.mutable_failure()->set_rank(1);
  failed.mutable_failure()->set_node("w1");
  failed.mutable_failure()->mutable_exit()->set_failure(v1::FAILURE_SIGNAL);
  failed.mutable_failure()->mutable_exit()->set_signal(9);
  controller_.AddWatch({{Event(failed)}, std::nullopt});
  const Ran ran = Paceline({"submit", JobFilePath(), "--wait"});
  EXPECT_EQ(ran.exit, kCliFailed);
  EXPECT_THAT(ran.out, HasSubstr("rank 1 on node w1 failed: killed by SIGKILL\n"));
}

TEST_F(ApiTest, ServerWithoutAPortHasTheDefaultOne) {
  std::ostringstream out;
  std::map<std::string, std::string> environment = {{"PACELINE_SERVER", "head"}};
  const auto variable = [&](const char* name) { return environment[name]; };
  Program program({out, out, false, 0, variable}, interrupt_);
  EXPECT_EQ(program.server(), "head:7450");
  program.flags.server = "other:1";
  EXPECT_EQ(program.server(), "other:1");
}

TEST_F(ApiTest, ServerThatIsToldIsTheOneThatIsSpokenTo) {
  std::ostringstream out;
  std::map<std::string, std::string> environment = {{"PACELINE_SERVER", "head:1"}};
  const auto variable = [&](const char* name) { return environment[name]; };
  Program program({out, out, false, 0, variable}, interrupt_);
  program.client();
  environment["PACELINE_SERVER"] = "other:1";
  EXPECT_EQ(program.server(), "head:1");
}

TEST_F(ApiTest, FollowSurvivesALostConnectionAndResumesAfterTheLastRevision) {
  controller_.AddWatch({{Event(JobIn(v1::RUNNING, 5, 10))}, Lost()});
  controller_.AddWatch({{}, Lost()});
  controller_.AddWatch({{Event(JobIn(v1::SUCCEEDED, 9, 100))}, std::nullopt});
  controller_.SetJobs({JobIn(v1::RUNNING, 5, 10)});
  const Ran ran = Paceline({"job", "watch", "digits"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  ASSERT_THAT(controller_.watches(), SizeIs(3));
  EXPECT_EQ(controller_.watches()[0].after_revision(), 0);
  EXPECT_EQ(controller_.watches()[2].after_revision(), 5);
  EXPECT_EQ(controller_.watches()[2].job_id(), kId);
  EXPECT_THAT(ran.err, HasSubstr("the job goes on"));
  EXPECT_EQ(ran.err.find("does not answer"), ran.err.rfind("does not answer")) << "told once";
}

TEST_F(ApiTest, CompactedRevisionStartsTheWatchAnewWithoutShowingAStateTwice) {
  controller_.AddWatch({{Event(JobIn(v1::RUNNING, 5, 10))},
                        grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "compacted")});
  controller_.AddWatch(
      {{Event(JobIn(v1::RUNNING, 5, 10)), Event(JobIn(v1::SUCCEEDED, 9, 100))}, std::nullopt});
  controller_.SetJobs({JobIn(v1::RUNNING, 5, 10)});
  const Ran ran = Paceline({"job", "watch", kId});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(controller_.watches().at(1).after_revision(), 0);
  EXPECT_EQ(ran.out.find("step 10/100"), ran.out.rfind("step 10/100"));
}

TEST_F(ApiTest, CtrlCLeavesTheJobAloneAndTellsHowToComeBack) {
  controller_.AddWatch({{Event(JobIn(v1::RUNNING, 5, 10))}, std::nullopt});
  controller_.OnWatchIdle([this] { interrupt_.Raise(); });
  const Ran ran = Paceline({"submit", JobFilePath(), "--follow"});
  EXPECT_EQ(ran.exit, kCliInterrupted);
  EXPECT_THAT(ran.err, HasSubstr("job-0123456789ab goes on. `paceline job watch "
                                 "job-0123456789ab` follows it again"));
  EXPECT_THAT(controller_.cancels(), IsEmpty());
}

TEST_F(ApiTest, WaitGivesUpAfterTheTimeGiven) {
  controller_.SetJobs({JobIn(v1::RUNNING, 5, 10)});
  controller_.AddWatch({{Event(JobIn(v1::RUNNING, 5, 10))}, std::nullopt});
  const Ran ran = Paceline({"job", "wait", kId, "--for", "0.2"});
  EXPECT_EQ(ran.exit, kCliTimeout);
  EXPECT_THAT(ran.err, HasSubstr("is RUNNING and has not ended in the time given"));
}

TEST_F(ApiTest, WaitWithJsonPrintsTheJobAndNothingElse) {
  controller_.SetJobs({JobIn(v1::RUNNING, 5, 10)});
  controller_.AddWatch({{Event(JobIn(v1::CANCELLED, 6, 10))}, std::nullopt});
  const Ran ran = Paceline({"job", "wait", kId, "-o", "json"});
  EXPECT_EQ(ran.exit, kCliFailed);
  v1::Job job;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(ran.out, &job).ok()) << ran.out;
  EXPECT_EQ(job.state(), v1::CANCELLED);
}

TEST_F(ApiTest, ListIsATable) {
  v1::Job queued = JobIn(v1::QUEUED, 1);
  queued.set_reason("waits for 2 slots\x1b[2J");
  controller_.SetJobs({queued, JobIn(v1::RUNNING, 2, 50)});
  EXPECT_EQ(Paceline({"job", "list"}).out,
            "ID                NAME    STATE    RANKS    STEP    LOSS  SAMPLES/S  RAN  REASON\n"
            "job-0123456789ab  digits  QUEUED       2   0/100       -          -    -  "
            "waits for 2 slots\\x1b[2J\n"
            "job-0123456789ab  digits  RUNNING      2  50/100  0.5000        800    -  -\n");
}

TEST_F(ApiTest, ListReadsPageAfterPageUpToTheLimit) {
  controller_.SetJobs(std::vector<v1::Job>(2500, JobIn(v1::SUCCEEDED, 1)));
  v1::ListJobsResponse jobs;
  const Ran all = Paceline({"job", "list", "--limit", "5000", "--output", "json"});
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(all.out, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 2500);
  const Ran some = Paceline({"job", "list", "--limit", "2"});
  EXPECT_THAT(some.err, HasSubstr("there are more"));
}

TEST_F(ApiTest, UnknownJobIsNotFound) {
  const Ran ran = Paceline({"job", "describe", "nix"});
  EXPECT_EQ(ran.exit, kCliNotFound);
  EXPECT_EQ(
      ran.err,
      "error: there is no job \"nix\"\n  `paceline job list` shows the jobs that there are\n");
}

TEST_F(ApiTest, JobMayBeNamedLikeAVerb) {
  v1::Job job = JobIn(v1::RUNNING, 1, 3);
  job.mutable_spec()->set_name("list");
  controller_.SetJobs({job});
  EXPECT_THAT(Paceline({"job", "describe", "list"}).out, StartsWith("Name:       list\n"));
}

TEST_F(ApiTest, CancelEndsEachJobThatIsNamed) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  const Ran ran = Paceline({"job", "cancel", kId, "other", "--reason", "enough", "--grace", "2"});
  EXPECT_EQ(ran.exit, kCliNotFound);
  EXPECT_EQ(ran.out, "digits (job-0123456789ab) is STOPPING\n");
  ASSERT_THAT(controller_.cancels(), SizeIs(2));
  EXPECT_EQ(controller_.cancels()[0].reason(), "enough");
  EXPECT_EQ(controller_.cancels()[0].grace_s(), 2);
  EXPECT_NE(controller_.cancels()[0].request_id(), controller_.cancels()[1].request_id());
}

TEST_F(ApiTest, LogsOfAllRanksHaveTheirRankInFront) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{Chunk(0, "a\nb")}, grpc::Status::OK});
  controller_.AddLog(1, {{Chunk(0, "c\x1b[2J\n")}, grpc::Status::OK});
  EXPECT_EQ(Paceline({"job", "logs", kId}).out, "[rank 0] a\n[rank 0] b\n[rank 1] c\\x1b[2J\n");
}

TEST_F(ApiTest, LogsOfOneRankHaveNothingInFront) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(1, {{Chunk(0, "c\n")}, grpc::Status::OK});
  EXPECT_EQ(Paceline({"job", "logs", kId, "--rank", "1"}).out, "c\n");
}

TEST_F(ApiTest, LostLogStreamIsResumedWithoutLosingOrRepeatingAByte) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{Chunk(100, "one\ntw")}, Lost()});
  controller_.AddLog(0, {{Chunk(104, "two\nth")}, Lost()});
  controller_.AddLog(0, {{Chunk(110, "ree\n")}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "-f", kId, "--rank", "0", "--tail", "3"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "one\ntwo\nthree\n");
  EXPECT_THAT(ran.err, HasSubstr("rank 0: the controller at " + controller_.address() +
                                 " does not answer; going on when it is back\n"));
  ASSERT_THAT(controller_.logs(), SizeIs(3));
  EXPECT_EQ(controller_.logs()[0].tail_lines(), 3);
  EXPECT_EQ(controller_.logs()[1].tail_lines(), 0);
  EXPECT_EQ(controller_.logs()[1].offset(), 106);
  EXPECT_EQ(controller_.logs()[2].offset(), 110);
  EXPECT_TRUE(controller_.logs()[2].follow());
}

TEST_F(ApiTest, FollowedLogGoesOnWithTheTrainerThatTakesTheRank) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{ChunkOf(1, "w0", 100, "one\ntw"), ChunkOf(1, "w0", 106, "o\nlast wo"),
                          ChunkOf(2, "w3", 0, "new\n"), ChunkOf(2, "w3", 4, "newer\n")},
                         grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "-f", kId, "--rank", "0", "--tail", "3"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "one\ntwo\nlast wo\nnew\nnewer\n");
  EXPECT_EQ(ran.err, "rank 0 is now on w3\n") << "and nothing of a gap";
  ASSERT_THAT(controller_.logs(), SizeIs(1));
  EXPECT_TRUE(controller_.logs()[0].follow_rank());
  EXPECT_FALSE(controller_.logs()[0].has_trainer());
}

TEST_F(ApiTest, LogOfAnotherTrainerAfterAnOutageIsReadFromItsBeginning) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{ChunkOf(1, "w0", 0, "one\ntwo\n")}, Lost()});
  controller_.AddLog(0, {{ChunkOf(2, "w3", 0, "new\nne")}, Lost()});
  controller_.AddLog(
      0, {{ChunkOf(2, "w3", 6, "wer\n"), ChunkOf(3, "w4", 50, "third\n")}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "-f", kId, "--rank", "0"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "one\ntwo\nnew\nnewer\nthird\n");
  const std::vector<std::string> notes = absl::StrSplit(ran.err, '\n');
  EXPECT_THAT(notes, ElementsAre(HasSubstr("does not answer"), "rank 0 is now on w3",
                                 HasSubstr("does not answer"), "rank 0 is now on w4",
                                 "rank 0: 50 bytes are no longer kept", ""));
  const auto logs = controller_.logs();
  ASSERT_THAT(logs, SizeIs(3));
  EXPECT_EQ(logs[1].trainer().generation(), 1);
  EXPECT_EQ(logs[1].node(), "w0");
  EXPECT_EQ(logs[1].offset(), 8);
  EXPECT_EQ(logs[2].trainer().generation(), 2);
  EXPECT_EQ(logs[2].node(), "w3");
  EXPECT_EQ(logs[2].offset(), 6);
}

TEST_F(ApiTest, RotatedPartOfALogIsTold) {
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 3)});
  controller_.AddLog(0, {{Chunk(5000, "late\n")}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", kId, "--rank", "0"});
  EXPECT_THAT(ran.err, HasSubstr("5000 bytes are no longer kept"));
}

TEST_F(ApiTest, FollowedLogsWaitForTheJobToStart) {
  controller_.SetJobs({JobIn(v1::QUEUED, 1)});
  controller_.AddWatch(
      {{Event(JobIn(v1::QUEUED, 1)), Event(JobIn(v1::STARTING, 2))}, std::nullopt});
  controller_.AddLog(0, {{Chunk(0, "x\n")}, grpc::Status::OK});
  controller_.AddLog(1, {{}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", kId, "-f"});
  EXPECT_EQ(ran.out, "[rank 0] x\n") << ran.err;
}

TEST_F(ApiTest, LogsThatCannotBeAreToldWithTheRightCode) {
  controller_.SetJobs({JobIn(v1::QUEUED, 1)});
  EXPECT_EQ(Paceline({"job", "logs", kId}).exit, kCliRefused);
  controller_.SetJobs({JobIn(v1::RUNNING, 1)});
  EXPECT_EQ(Paceline({"job", "logs", kId, "--rank", "2"}).exit, kCliNotFound);
  EXPECT_EQ(Paceline({"job", "logs", kId, "--rank", "x"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "logs", kId, "-o", "json"}).exit, kCliUsage);
}

TEST_F(ApiTest, NodesAreListedAndDescribed) {
  v1::Node node;
  node.set_name("w0");
  node.set_state(v1::NODE_READY);
  node.set_slots(2);
  controller_.nodes().SetNodes({node});
  EXPECT_THAT(Paceline({"node", "list"}).out, HasSubstr("w0    READY    0/2"));
  EXPECT_THAT(Paceline({"node", "describe", "w0"}).out, HasSubstr("Slots:      0 of 2 used"));
  EXPECT_EQ(Paceline({"node", "describe", "w9"}).exit, kCliNotFound);
}

TEST_F(ApiTest, ServerThatIsAwayIsUnavailable) {
  // Port 1 of the loopback: nothing serves there.
  const Ran ran = Paceline({"--server", "127.0.0.1:1", "--timeout", "0.1", "job", "list"});
  EXPECT_EQ(ran.exit, kCliUnavailable);
  EXPECT_THAT(ran.err, HasSubstr("the controller at 127.0.0.1:1 does not answer"));
  EXPECT_THAT(ran.err, HasSubstr("paceline dev up"));
}

TEST_F(ApiTest, WatchOfAllJobsIsALinePerChange) {
  controller_.AddWatch({{Event(JobIn(v1::QUEUED, 1)), Event(JobIn(v1::RUNNING, 2, 5))}, Lost()});
  controller_.AddWatch({{}, std::nullopt});
  controller_.OnWatchIdle([this] { interrupt_.Raise(); });
  const Ran ran = Paceline({"job", "watch"});
  EXPECT_EQ(ran.exit, kCliInterrupted);
  EXPECT_THAT(ran.out, StartsWith("job-0123456789ab digits QUEUED\njob-0123456789ab digits "
                                  "RUNNING step 5/100"));
}

TEST_F(ApiTest, WatchOfOneJobAsJsonIsALinePerChangeUntilItEnds) {
  controller_.AddWatch({{Event(JobIn(v1::RUNNING, 2, 5)), Event(JobIn(v1::RUNNING, 3, 6)),
                         Event(JobIn(v1::SUCCEEDED, 4, 100))},
                        std::nullopt});
  controller_.SetJobs({JobIn(v1::RUNNING, 1, 4)});
  const Ran ran = Paceline({"--output", "json", "job", "watch", "digits"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  std::vector<std::string> states;
  for (const absl::string_view line : absl::StrSplit(ran.out, '\n', absl::SkipEmpty())) {
    v1::JobEvent event;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(std::string(line), &event).ok())
        << line;
    states.push_back(v1::JobState_Name(event.job().state()));
  }
  EXPECT_THAT(states, ElementsAre("RUNNING", "RUNNING", "SUCCEEDED"));
}

}  // namespace
}  // namespace paceline
