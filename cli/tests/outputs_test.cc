// Features of many verbs: contexts, output formats, watching, unknown names.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/fake_errors.h"
#include "cli/testing/parsed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

v1::Job JobOf(const std::string& name, v1::JobState state, int64_t revision, int64_t created) {
  v1::Job job;
  job.set_id("job-" + name);
  job.set_state(state);
  job.set_revision(revision);
  job.mutable_spec()->set_name(name);
  job.mutable_spec()->set_ranks(2);
  job.mutable_spec()->set_steps(100);
  job.mutable_create_time()->set_seconds(created);
  return job;
}

v1::JobEvent EventOf(const v1::Job& job, v1::EventType type = v1::MODIFIED) {
  v1::JobEvent event;
  event.set_type(type);
  *event.mutable_job() = job;
  event.set_revision(job.revision());
  return event;
}

class OutputsTest : public CommandTest {
 protected:
  OutputsTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    environment_["PACELINE_CONFIG"] = root_ + "/config.yaml";
    controller_.SetJobs({JobOf("digits", v1::RUNNING, 2, 20), JobOf("story", v1::QUEUED, 1, 10)});
    controller_.nodes().SetNodes({Parsed<v1::Node>("name: 'w0' state: NODE_READY"),
                                  Parsed<v1::Node>("name: 'w1' state: NODE_READY")});
  }
  ~OutputsTest() override { fs::remove_all(root_); }

  // Ends watches once everything scripted has arrived.
  void EndWhenIdle() {
    controller_.AddWatch({{}, std::nullopt});
    controller_.OnWatchIdle([this] { interrupt_.Raise(); });
  }

  const std::string root_ = ::testing::TempDir() + "/outputs_test";
};

TEST_F(OutputsTest, ContextIsAddedUsedAndRemoved) {
  environment_.erase("PACELINE_SERVER");
  EXPECT_EQ(Paceline({"context", "add", "here", controller_.address()}).out,
            absl::StrCat("added context here: ", controller_.address(), ", in use from now on\n"));
  EXPECT_THAT(Paceline({"job", "list"}).out, HasSubstr("digits"));
  EXPECT_EQ(Paceline({"context", "add", "far", "127.0.0.1:1"}).exit, kCliOk);
  EXPECT_THAT(Paceline({"job", "list"}).out, HasSubstr("digits"));
  const Ran away = Paceline({"--context", "far", "--timeout", "0.1", "job", "list"});
  EXPECT_EQ(away.exit, kCliUnavailable);
  EXPECT_THAT(away.err, HasSubstr("the controller at 127.0.0.1:1 (context far) does not answer"));
  EXPECT_EQ(Paceline({"context", "list", "-o", "name"}).out, "far\nhere\n");
  EXPECT_THAT(Paceline({"context", "list"}).out, HasSubstr("here  yes"));
  EXPECT_EQ(Paceline({"context", "use", "far"}).exit, kCliOk);
  EXPECT_THAT(Paceline({"context", "show"}).out, HasSubstr("Context:    far\n"));
  EXPECT_THAT(Paceline({"context", "remove", "far"}).out, HasSubstr("no context is in use"));
  EXPECT_EQ(Paceline({"context", "use", "far"}).exit, kCliNotFound);
}

TEST_F(OutputsTest, FlagsComeBeforeTheEnvironmentAndThatBeforeTheContext) {
  std::ofstream(root_ + "/config.yaml")
      << "current: c\ncontexts: {c: {server: 'context:1'}, d: {server: 'other:1'}}\n";
  const auto server = [this](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"context", "show", "-o", "json"});
    return Paceline(flags).out;
  };
  EXPECT_THAT(server({"-s", "flag:1"}), HasSubstr("flag:1"));
  EXPECT_THAT(server({"-s", "::1,[::1],[::1]:9"}), HasSubstr("[::1]:7450,[::1]:7450,[::1]:9"));
  EXPECT_THAT(server({"--context", "d"}), HasSubstr("other:1"));
  EXPECT_THAT(server({}), HasSubstr(controller_.address()));
  environment_.erase("PACELINE_SERVER");
  EXPECT_THAT(server({}), HasSubstr("context:1"));
  environment_["PACELINE_CONTEXT"] = "d";
  EXPECT_THAT(server({}), HasSubstr("other:1"));
}

TEST_F(OutputsTest, ServerThatIsNoAddressIsWrongUsage) {
  for (const char* wrong : {"[::1", "[::1]:x", "http://head", "head:0"}) {
    const Ran ran = Paceline({"-s", wrong, "job", "list"});
    EXPECT_EQ(ran.exit, kCliUsage) << wrong;
    EXPECT_THAT(ran.err, HasSubstr("is no address of a controller")) << wrong;
  }
}

TEST_F(OutputsTest, BrokenConfigurationStopsOnlyWhatNeedsIt) {
  std::ofstream(root_ + "/config.yaml") << "contexts: [\n";
  EXPECT_EQ(Paceline({"job", "list"}).exit, kCliOk) << "PACELINE_SERVER says all";
  environment_.erase("PACELINE_SERVER");
  const Ran ran = Paceline({"job", "list"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, StartsWith("error: " + root_ + "/config.yaml:"));
  EXPECT_EQ(Paceline({"version"}).exit, kCliOk);
  EXPECT_EQ(Paceline({"context", "add", "a", "h"}).exit, kCliUsage) << "would lose what it holds";
}

TEST_F(OutputsTest, UnknownContextIsToldBeforeAnythingIsAsked) {
  std::ofstream(root_ + "/config.yaml") << "contexts: {prod: {server: h}}\n";
  const Ran ran = Paceline({"--context", "prd", "job", "list"});
  EXPECT_EQ(ran.exit, kCliNotFound);
  EXPECT_THAT(ran.err, HasSubstr("did you mean \"prod\"?"));
}

TEST_F(OutputsTest, ListsTakeEachForm) {
  EXPECT_EQ(Paceline({"job", "list", "-o", "name"}).out, "job-digits\njob-story\n");
  EXPECT_EQ(Paceline({"node", "list", "-o", "name"}).out, "w0\nw1\n");
  EXPECT_THAT(Paceline({"job", "list", "-o", "wide"}).out, HasSubstr("QUEUE"));
  EXPECT_THAT(Paceline({"job", "list", "--no-headers"}).out, StartsWith("job-digits"));
  const std::string yaml = Paceline({"job", "list", "-o", "yaml"}).out;
  EXPECT_THAT(yaml, StartsWith("jobs:\n  - id: job-digits\n"));
  EXPECT_THAT(yaml, HasSubstr("    revision: \"2\"\n"));
}

TEST_F(OutputsTest, NamesNearToWrongOnesAreTold) {
  const Ran job = Paceline({"job", "describe", "digts"});
  EXPECT_EQ(job.exit, kCliNotFound);
  EXPECT_EQ(job.err,
            "error: there is no job \"digts\"\n  did you mean \"digits\"?\n"
            "  `paceline job list` shows the jobs that there are\n");
  EXPECT_THAT(Paceline({"node", "describe", "w00"}).err, HasSubstr("did you mean \"w0\"?"));
  EXPECT_THAT(Paceline({"job", "describe", "xyzzy"}).err, Not(HasSubstr("did you mean")));
}

TEST_F(OutputsTest, NodesAreChosenByState) {
  controller_.nodes().SetNodes({Parsed<v1::Node>("name: 'w0' state: NODE_READY"),
                                Parsed<v1::Node>("name: 'w1' state: NODE_DRAINED"),
                                Parsed<v1::Node>("name: 'w2' state: NODE_LOST")});
  EXPECT_EQ(Paceline({"node", "list", "--state", "drained,LOST", "-o", "name"}).out, "w1\nw2\n");
  EXPECT_THAT(Paceline({"node", "list", "--state", "cordoned"}).err,
              HasSubstr("no node in such a state"));
  EXPECT_EQ(Paceline({"node", "list", "--state", "gone"}).exit, kCliUsage);
}

TEST_F(OutputsTest, WatchedNodesAreToldAsLongAsTheyAreWanted) {
  std::vector<v1::NodeEvent> events;
  for (const v1::NodeState state : {v1::NODE_READY, v1::NODE_DRAINING, v1::NODE_DRAINED}) {
    v1::NodeEvent& event = events.emplace_back();
    event.set_type(v1::MODIFIED);
    event.set_revision(static_cast<int64_t>(events.size()));
    event.mutable_node()->set_name("w0");
    event.mutable_node()->set_state(state);
    event.mutable_node()->set_revision(event.revision());
  }
  controller_.nodes().AddWatch(events);
  controller_.nodes().AddWatch({});
  controller_.nodes().OnWatchIdle([this] { interrupt_.Raise(); });
  const Ran ran = Paceline({"node", "list", "-w", "--state", "draining"});
  EXPECT_THAT(ran.out, StartsWith("w0 DRAINING"));
  EXPECT_THAT(ran.out, HasSubstr("\nw0 DRAINED"));
  EXPECT_THAT(ran.out, Not(HasSubstr("READY")));
}

TEST_F(OutputsTest, WatchedListIsALinePerChangeWhereNothingCanBeRedrawn) {
  controller_.AddWatch(
      {{EventOf(JobOf("digits", v1::RUNNING, 2, 20)), EventOf(JobOf("story", v1::QUEUED, 3, 10)),
        EventOf(JobOf("digits", v1::SUCCEEDED, 4, 20))},
       Lost()});
  EndWhenIdle();
  const Ran ran = Paceline({"job", "list", "-w", "--state", "running"});
  EXPECT_EQ(ran.exit, kCliInterrupted);
  EXPECT_THAT(ran.out, StartsWith("job-digits digits RUNNING"));
  EXPECT_THAT(ran.out, HasSubstr("\njob-digits digits SUCCEEDED"));
  EXPECT_THAT(ran.out, Not(HasSubstr("story")));
}

TEST_F(OutputsTest, WatchedListIsKeptUpToDateOnATerminal) {
  controller_.AddWatch({{EventOf(JobOf("third", v1::STARTING, 8, 30), v1::ADDED),
                         EventOf(JobOf("story", v1::CANCELLED, 9, 10), v1::DELETED)},
                        Lost()});
  EndWhenIdle();
  const Ran ran = Paceline({"job", "list", "-w", "--no-color"}, /*terminal=*/true);
  EXPECT_EQ(ran.exit, kCliInterrupted);
  // The last picture drawn.
  const std::string last = ran.out.substr(ran.out.rfind("\x1b[J"));
  EXPECT_THAT(last, HasSubstr("job-third"));
  EXPECT_LT(last.find("job-third"), last.find("job-digits")) << "newest first";
  EXPECT_THAT(last, Not(HasSubstr("job-story")));
  EXPECT_THAT(last, EndsWith("\x1b[?7h"));
  EXPECT_THAT(ran.err, HasSubstr("does not answer; going on when it is back"));
  ASSERT_THAT(controller_.watches(), SizeIs(2));
  EXPECT_EQ(controller_.watches()[0].after_revision(), 7) << "from where the list was";
  EXPECT_EQ(controller_.watches()[1].after_revision(), 9);
}

TEST_F(OutputsTest, WatchedListOfSeveralPagesMissesNothing) {
  std::vector<v1::Job> jobs;
  for (int j = 0; j < 5; ++j) {
    jobs.push_back(JobOf(absl::StrCat("j", j), v1::RUNNING, 7, 1000 - j));
  }
  controller_.SetJobs(jobs, /*per_page=*/4);
  controller_.AddWatch(
      {{EventOf(JobOf("j0", v1::SUCCEEDED, 8, 1000)), EventOf(JobOf("j1", v1::QUEUED, 6, 999))},
       Lost()});
  EndWhenIdle();
  const Ran ran =
      Paceline({"job", "list", "-w", "--no-color", "--state", "running"}, /*terminal=*/true);
  EXPECT_EQ(controller_.watches().at(0).after_revision(), 7) << "the first page's";
  const std::string last = ran.out.substr(ran.out.rfind("\x1b[J"));
  EXPECT_THAT(last, Not(HasSubstr("job-j0 "))) << "ended while the second page was fetched";
  EXPECT_THAT(last, HasSubstr("job-j1 ")) << "was listed after that change";
  EXPECT_THAT(last, HasSubstr("job-j4 "));
}

TEST_F(OutputsTest, ListIsFetchedAgainWhenChangesWereMissed) {
  controller_.AddWatch({{}, grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "compacted")});
  controller_.AddWatch({{EventOf(JobOf("digits", v1::RUNNING, 12, 20), v1::ADDED)}, Lost()});
  EndWhenIdle();
  const Ran ran = Paceline({"job", "list", "-w", "--no-color"}, /*terminal=*/true);
  EXPECT_EQ(controller_.watches().at(1).after_revision(), 0);
  const std::string last = ran.out.substr(ran.out.rfind("\x1b[J"));
  EXPECT_EQ(last.find("job-digits"), last.rfind("job-digits")) << "once\n" << last;
}

TEST_F(OutputsTest, WatchedPageEndsWithTheJob) {
  controller_.AddWatch({{EventOf(JobOf("digits", v1::SUCCEEDED, 9, 20))}, std::nullopt});
  const Ran ran = Paceline({"job", "describe", "digits", "-w"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("RUNNING"));
  EXPECT_THAT(ran.out, HasSubstr("SUCCEEDED"));
}

TEST_F(OutputsTest, LogsAreChosenByNodeAndExpression) {
  v1::Job job = JobOf("digits", v1::RUNNING, 2, 20);
  for (const char* node : {"w0", "w1", "w1"}) job.add_ranks()->set_node(node);
  controller_.SetJobs({job});
  v1::LogChunk chunk;
  chunk.set_data("step=1\nError: \x1b]0;title\x07\xff\nstep=2\n");
  for (const int rank : {1, 2}) controller_.AddLog(rank, {{chunk}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "digits", "--node", "w1", "--grep", "(?i)error"});
  EXPECT_EQ(ran.out,
            "[rank 1] Error: \\x1b]0;title\\x07\\xff\n[rank 2] Error: \\x1b]0;title\\x07\\xff\n");
  controller_.AddLog(1, {{chunk}, grpc::Status::OK});
  EXPECT_THAT(Paceline({"job", "logs", "digits", "--rank", "1", "--node", "w9"}).err,
              HasSubstr("no such rank of job-digits is on w9; they are on w1"));
  EXPECT_THAT(Paceline({"job", "logs", "digits", "--grep", "("}).err,
              HasSubstr("is no regular expression"));
}

TEST_F(OutputsTest, LogsBeginWithWhatWasWrittenSince) {
  v1::Job job = JobOf("digits", v1::RUNNING, 2, 20);
  job.add_ranks();
  controller_.SetJobs({job});
  v1::LogChunk chunk;
  chunk.set_offset(5000);
  chunk.set_data("late\n");
  controller_.AddLog(0, {{chunk}, Lost()});
  controller_.AddLog(0, {{}, grpc::Status::OK});
  const Ran ran = Paceline({"job", "logs", "digits", "--since", "10m"});
  EXPECT_EQ(ran.out, "late\n");
  EXPECT_THAT(ran.err, Not(HasSubstr("no longer kept"))) << "it was not asked for";
  const auto logs = controller_.logs();
  ASSERT_THAT(logs, SizeIs(2));
  EXPECT_GE(logs[0].since_s(), 600);
  EXPECT_LT(logs[0].since_s(), 3600);
  EXPECT_EQ(logs[1].since_s(), 0) << "from here on by offset";
  EXPECT_EQ(logs[1].offset(), 5005);
  EXPECT_EQ(Paceline({"job", "logs", "digits", "--since", "tomorrow"}).exit, kCliUsage);
}

TEST_F(OutputsTest, ClusterAndQueuesAtAGlance) {
  const Ran cluster = Paceline({"cluster", "status"});
  EXPECT_EQ(cluster.exit, kCliOk) << cluster.err;
  EXPECT_THAT(cluster.out, HasSubstr("Jobs:       2 (1 QUEUED, 1 RUNNING)\n"));
  EXPECT_THAT(cluster.out, HasSubstr("story (job-story) is QUEUED"));
  EXPECT_THAT(Paceline({"cluster", "status", "-o", "yaml"}).out, HasSubstr("nodes:\n  READY: 2\n"));
  EXPECT_THAT(Paceline({"queue", "list"}).out, HasSubstr("default        1         1"));
  EXPECT_EQ(Paceline({"queue", "list", "-o", "name"}).out, "default\n");
  EXPECT_THAT(Paceline({"queue", "list", "-o", "json"}).out, HasSubstr("\"job-story\""));
}

TEST_F(OutputsTest, AQueueHasTheRanksThatItsJobsHaveAndThoseThatTheyWant) {
  v1::Job grown = JobOf("digits", v1::RUNNING, 2, 20);
  for (int rank = 0; rank < 3; ++rank) grown.add_ranks();
  controller_.SetJobs({grown, JobOf("story", v1::QUEUED, 1, 10)});
  EXPECT_THAT(Paceline({"queue", "list"}).out, HasSubstr("default        1         1      3"));
  EXPECT_THAT(Paceline({"queue", "list", "-o", "json"}).out,
              HasSubstr("\"ranks\": 3,\n   \"ranks_wanted\": 2\n"));
}

TEST_F(OutputsTest, ReportIsWrittenWithoutSecrets) {
  v1::Job job = JobOf("digits", v1::FAILED, 2, 20);
  job.set_reason("wandb: api_key=0123456789abcdef was refused");
  job.add_ranks();
  controller_.SetJobs({job});
  v1::LogChunk chunk;
  chunk.set_data("login https://ann:hunter2@data\n\x1b[2J");
  controller_.AddLog(0, {{chunk}, grpc::Status::OK});
  const std::string path = root_ + "/report.txt";
  const Ran ran = Paceline({"diag", "digits", "--out", path});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, path + "\n");
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  for (const char* part : {"==== program\n", "==== settings\n", "==== cluster\n", "==== nodes\n",
                           "==== job\n", "==== log of rank 0\nlogin https://[removed]@data\n"}) {
    EXPECT_THAT(text.str(), HasSubstr(part));
  }
  EXPECT_THAT(text.str(), Not(HasSubstr("0123456789abcdef")));
  EXPECT_THAT(text.str(), Not(HasSubstr("hunter2")));
  EXPECT_THAT(text.str(), Not(HasSubstr("\x1b")));
}

TEST_F(OutputsTest, ReportIsWrittenWithoutAController) {
  const Ran ran = Paceline({"-s", "127.0.0.1:1", "--timeout", "0.1", "diag", "--out", "-"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_THAT(ran.out, HasSubstr("==== cluster\ncannot be had: "));
}

TEST_F(OutputsTest, CompletionNamesAreQuietAboutFailures) {
  EXPECT_EQ(Paceline({"__names", "jobs"}).out, "digits\nstory\njob-digits\njob-story\n");
  EXPECT_EQ(Paceline({"__names", "nodes"}).out, "w0\nw1\n");
  const Ran away = Paceline({"-s", "127.0.0.1:1", "--timeout", "0.1", "__names", "jobs"});
  EXPECT_EQ(away.exit, kCliOk);
  EXPECT_EQ(away.out + away.err, "");
}

}  // namespace
}  // namespace paceline
