// Every example of --help, and every command line of the pages, is one that works: they are run
// against a controller that knows a few jobs, nodes and checkpoints and has done all that is asked.
#include "cli/verbs/examples.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/command_line.h"
#include "cli/completion/completion.h"
#include "cli/exit_codes.h"
#include "cli/testing/checkpoint_command_test.h"
#include "cli/testing/shell_words.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

// Only their usage is checked here: they start processes, or need data of people's own.
constexpr const char* kOnlyParsed[] = {
    "paceline dev ",                // tests/integration/dev_test.cc
    "paceline data import-digits",  // cli/digits/digits_test.cc
};

constexpr const char* kJobNames[] = {"digits", "story", "my-job", "JOB"};

// A job that has done whatever is waited for.
constexpr char kDone[] = R"(
    id: 'job-0123456789ab' state: SUCCEEDED revision: 9
    spec { ranks: 2 steps: 500 } progress { step: 500 loss: 0.1 samples_per_s: 80 }
    plan { epoch: 2 active_epoch: 2 }
    checkpoints { complete: 1 order { number: 1 state: COMPLETE step: 500 } }
    profile { request { id: 1 first_step: 40 steps: 3 } ranks: 0 ranks: 1 }
    ranks { rank: 0 node: 'w1' profile { id: 1 } } ranks { rank: 1 node: 'w2' profile { id: 1 } })";

bool IsOnlyParsed(const std::string& line) {
  return std::any_of(std::begin(kOnlyParsed), std::end(kOnlyParsed),
                     [&](const char* prefix) { return absl::StartsWith(line, prefix); });
}

// Goes on until Ctrl-C.
bool IsEndless(const std::string& line) {
  return absl::StrContains(line, "--watch") || absl::StrContains(line, "node watch") ||
         line == "paceline job watch";
}

// Not gtest's working directory: examples write files.
class ExampleWorld : public CheckpointTest {
 protected:
  ExampleWorld() : home_(fs::current_path()) {
    environment_["USER"] = "ann";
    environment_["PACELINE_CONFIG"] = root_ + "/config.yaml";
    std::ofstream(root_ + "/config.yaml") << "contexts: {prod: {server: head}}\n";
    std::ofstream(root_ + "/job.yaml")
        << "name: digits\nranks: 2\nmodel: resnet18\ndata: {train: t}\nsteps: 100\n"
           "optimizer: {kind: sgd, learning_rate: 0.1}\n";
    fs::create_directory(root_ + "/text");
    std::ofstream(root_ + "/text/a.txt") << "some text\n";
    Store();
    SetJobsAndCheckpoints();
    SetNodes();
    controller_.SetAdvice(Parsed<v1::JobAdvice>("decisions { id: 1 }"));
    for (int rank = 0; rank < 2; ++rank) {
      v1::LogChunk chunk;
      chunk.set_data("step=1\nno error\n");
      controller_.AddLog(rank, {{chunk}, grpc::Status::OK});
    }
    fs::current_path(root_);
  }
  ~ExampleWorld() override { fs::current_path(home_); }

  void SetJobsAndCheckpoints() {
    std::vector<v1::Job> jobs;
    std::vector<v1::Checkpoint> checkpoints;
    for (const char* name : kJobNames) {
      auto job = Parsed<v1::Job>(kDone);
      job.set_state(v1::RUNNING);
      job.set_revision(1);
      job.mutable_spec()->set_name(name);
      jobs.push_back(job);
      checkpoints.push_back(Known(kId, 500, 2));
      checkpoints.back().set_job_name(name);
    }
    controller_.SetJobs(jobs);
    controller_.SetCheckpoints(checkpoints);
    StreamScript<v1::JobEvent> watch;
    v1::JobEvent& event = watch.messages.emplace_back();
    event.set_type(v1::MODIFIED);
    event.set_revision(9);
    *event.mutable_job() = Parsed<v1::Job>(kDone);
    controller_.AddWatch(watch);
  }

  void SetNodes() {
    std::vector<v1::Node> nodes;
    std::vector<v1::NodeEvent> events;
    for (int i = 0; i < 6; ++i) {
      nodes.push_back(Parsed<v1::Node>("state: NODE_READY slots: 2"));
      nodes.back().set_name(absl::StrCat("w", i));
      v1::NodeEvent& event = events.emplace_back();
      event.set_type(v1::MODIFIED);
      event.set_revision(2 + i);
      *event.mutable_node() = Parsed<v1::Node>(
          "state: NODE_DRAINED holds { drain: DRAIN_SWAP } check { id: 1 measurements { name: 'g' } "
          "}");
      event.mutable_node()->set_name(nodes.back().name());
      event.mutable_node()->set_revision(2 + i);
    }
    controller_.nodes().SetNodes(nodes);
    controller_.nodes().AddWatch(events);
  }

  // Runs a line of the shell, whose first word is the program.
  Ran RunLine(const std::string& line) {
    if (IsEndless(line)) {
      controller_.OnWatchIdle([this] { interrupt_.Raise(); });
      controller_.nodes().OnWatchIdle([this] { interrupt_.Raise(); });
    }
    std::vector<std::string> words = ShellWords(line);
    words.erase(words.begin());
    return Paceline(words);
  }

  const fs::path home_;
};

// Usage alone; empty: it is right.
std::string UsageProblem(const std::string& line) {
  Interrupt interrupt;
  std::ostringstream sink;
  Program program({sink, sink, false, 0, [](const char*) { return std::string(); }}, interrupt);
  std::vector<std::string> words = ShellWords(line);
  words.erase(words.begin());
  std::reverse(words.begin(), words.end());
  try {
    MakeCommandLine(program)->parse(words);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? "" : error.what();
  }
  return "";
}

void ExpectDone(const std::string& line, const Ran& ran) {
  EXPECT_EQ(ran.exit, IsEndless(line) ? kCliInterrupted : kCliOk) << line << "\n" << ran.err;
}

class ExampleTest : public ExampleWorld, public ::testing::WithParamInterface<std::string> {};

TEST_P(ExampleTest, Works) { ExpectDone(GetParam(), RunLine(GetParam())); }

std::vector<std::string> LinesToRun() {
  std::set<std::string> lines;
  for (const Example& example : Examples()) {
    if (!IsOnlyParsed(example.line)) lines.insert(example.line);
  }
  return {lines.begin(), lines.end()};
}

INSTANTIATE_TEST_SUITE_P(Help, ExampleTest, ::testing::ValuesIn(LinesToRun()));

TEST(ExamplesTest, EveryCommandHasOneInItsHelp) {
  Interrupt interrupt;
  std::ostringstream sink;
  Program program({sink, sink, false, 0, [](const char*) { return std::string(); }}, interrupt);
  std::set<std::string> paths;
  for (const CompletionCommand& command : CompletionCommands(*MakeCommandLine(program))) {
    paths.insert(command.path);
    if (!command.subcommands.empty()) continue;
    EXPECT_THAT(ExamplesText(command.path), HasSubstr(command.path)) << command.path;
  }
  for (const Example& example : Examples()) {
    EXPECT_THAT(paths, Contains(example.path)) << "an example is about a command that is gone";
    EXPECT_EQ(UsageProblem(example.line), "") << example.line;
  }
}

TEST(ExamplesTest, HelpShowsThem) {
  Interrupt interrupt;
  std::ostringstream out;
  Program program({out, out, false, 0, [](const char*) { return std::string(); }}, interrupt);
  RunCommandLine(program, {"job", "list", "--help"});
  EXPECT_THAT(out.str(), HasSubstr("Examples:\n  paceline job list --state running,queued\n"));
}

// The command lines of pages, with where they stand.
struct PageLine {
  std::string page;
  std::string line;
};

std::vector<PageLine> LinesOfPages() {
  std::vector<PageLine> lines;
  std::vector<fs::path> pages = {"README.md"};
  for (const auto& entry : fs::directory_iterator("docs")) pages.push_back(entry.path());
  for (const fs::path& page : pages) {
    if (page.extension() != ".md") continue;
    std::ifstream in(page);
    std::stringstream text;
    text << in.rdbuf();
    for (const std::string& line : PacelineLines(text.str())) lines.push_back({page, line});
  }
  return lines;
}

TEST(PagesTest, EveryCommandLineIsRightUsage) {
  const std::vector<PageLine> lines = LinesOfPages();
  EXPECT_GT(lines.size(), 40u);
  for (const PageLine& at : lines) {
    EXPECT_EQ(UsageProblem(at.line), "") << at.page << ": " << at.line;
  }
}

// What reads files of people's own, or goes through other ones, is not run here.
bool IsRunnable(const std::string& line) {
  return !IsOnlyParsed(line) && !absl::StartsWith(line, "paceline submit") &&
         !absl::StartsWith(line, "paceline data");
}

class PageTest : public ExampleWorld, public ::testing::WithParamInterface<std::string> {};

TEST_P(PageTest, Works) { ExpectDone(GetParam(), RunLine(GetParam())); }

std::vector<std::string> PageLinesToRun() {
  std::set<std::string> lines;
  for (const PageLine& at : LinesOfPages()) {
    if (IsRunnable(at.line)) lines.insert(at.line);
  }
  return {lines.begin(), lines.end()};
}

INSTANTIATE_TEST_SUITE_P(Docs, PageTest, ::testing::ValuesIn(PageLinesToRun()));

}  // namespace
}  // namespace paceline
