// The verbs against a controller on a real socket: choosing it, JSON of jobs and nodes, and watches
// that outlive a connection.
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/exit_codes.h"
#include "cli/program.h"
#include "cli/testing/command_test.h"
#include "cli/testing/digits_job.h"
#include "cli/testing/fake_errors.h"
#include "cli/text/message_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

using ApiTest = CommandTest;

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
  v1::JobEvent listed;
  listed.set_type(v1::BOOKMARK);
  listed.set_revision(5);
  controller_.AddWatch({{Event(JobIn(v1::RUNNING, 5, 10)), listed}, Lost()});
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
  ASSERT_TRUE(MessageFromJson(ran.out, &job)) << ran.out;
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
  ASSERT_TRUE(MessageFromJson(all.out, &jobs));
  EXPECT_EQ(jobs.jobs_size(), 2500);
  const Ran some = Paceline({"job", "list", "--limit", "2"});
  EXPECT_THAT(some.err, HasSubstr("there are more"));
}

TEST_F(ApiTest, ListChoosesAmongTheJobsOfAControllerThatKnowsNoSelectors) {
  controller_.ForgetSelectors();
  controller_.SetJobs({JobIn(v1::RUNNING, 2)});
  EXPECT_EQ(Paceline({"job", "list", "-l", "model=llama", "-o", "name"}).out, "");
  EXPECT_EQ(Paceline({"job", "list", "-l", "!model", "-o", "name"}).out, absl::StrCat(kId, "\n"));
}

TEST_F(ApiTest, ListChoosesByLabels) {
  v1::Job llama = JobIn(v1::RUNNING, 1);
  llama.set_id("job-aaaaaaaaaaaa");
  (*llama.mutable_spec()->mutable_labels())["model"] = "llama";
  controller_.SetJobs({llama, JobIn(v1::RUNNING, 2)});
  EXPECT_EQ(Paceline({"job", "list", "-l", "model=llama", "-o", "name"}).out, "job-aaaaaaaaaaaa\n");
  EXPECT_EQ(Paceline({"job", "list", "--selector", "!model", "-o", "name"}).out,
            absl::StrCat(kId, "\n"));
  EXPECT_THAT(Paceline({"job", "list", "-l", "model!=llama,model"}).err,
              HasSubstr("no job with such labels"));
  const Ran wrong = Paceline({"job", "list", "-l", "te am"});
  EXPECT_EQ(wrong.exit, kCliUsage);
  EXPECT_THAT(wrong.err, HasSubstr("the label selector has \"te am\""));
  EXPECT_EQ(Paceline({"job", "list", "-l", ""}).exit, kCliUsage);
}

// The controller filters what is listed; what happens later is chosen here.
TEST_F(ApiTest, AWatchedListChoosesByLabelsToo) {
  v1::Job llama = JobIn(v1::RUNNING, 5);
  (*llama.mutable_spec()->mutable_labels())["model"] = "llama";
  v1::Job other = JobIn(v1::RUNNING, 6);
  other.set_id("job-bbbbbbbbbbbb");
  controller_.AddWatch(
      {{Event(llama), Event(other)}, grpc::Status(grpc::StatusCode::INTERNAL, "over")});
  const Ran ran = Paceline({"job", "list", "--watch", "-l", "model=llama"});
  EXPECT_THAT(ran.out, HasSubstr(kId));
  EXPECT_THAT(ran.out, Not(HasSubstr("job-bbbbbbbbbbbb")));
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

TEST_F(ApiTest, JsonHasTheShortNamesOfEnumerations) {
  v1::Node node;
  node.set_name("NODE_READY");
  node.set_state(v1::NODE_READY);
  node.add_holds()->set_drain(v1::DRAIN_SWAP);
  node.mutable_register_time()->set_seconds(5);
  controller_.nodes().SetNodes({node});
  const std::string listed = Paceline({"node", "list", "-o", "json"}).out;
  EXPECT_THAT(listed, HasSubstr("\"state\": \"READY\""));
  EXPECT_THAT(listed, HasSubstr("\"drain\": \"SWAP\""));
  EXPECT_THAT(listed, HasSubstr("\"name\": \"NODE_READY\""));
  v1::ListNodesResponse read;
  ASSERT_TRUE(MessageFromJson(listed, &read));
  EXPECT_EQ(read.nodes(0).state(), v1::NODE_READY);
  EXPECT_EQ(read.nodes(0).register_time().seconds(), 5);
  v1::Job job = JobIn(v1::RUNNING, 2, 50);
  job.add_ranks()->set_state(v1::TRAINER_RUNNING);
  job.mutable_spec()->mutable_stragglers();
  controller_.SetJobs({job});
  const std::string described = Paceline({"job", "describe", kId, "-o", "yaml"}).out;
  EXPECT_THAT(described, HasSubstr("state: RUNNING\n"));
  EXPECT_THAT(described, HasSubstr("mode: UNSPECIFIED\n"));
  EXPECT_THAT(described, ::testing::Not(HasSubstr("TRAINER_")));
}

TEST_F(ApiTest, ServerThatIsAwayIsUnavailable) {
  // Nothing serves on port 1 of the loopback.
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
    ASSERT_TRUE(MessageFromJson(std::string(line), &event)) << line;
    states.push_back(v1::JobState_Name(event.job().state()));
  }
  EXPECT_THAT(states, ElementsAre("RUNNING", "RUNNING", "SUCCEEDED"));
}

}  // namespace
}  // namespace paceline
