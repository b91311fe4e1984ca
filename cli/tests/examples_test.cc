// Every example of --help, and every command line in the pages, works: each is run against a
// controller that knows some jobs, nodes and checkpoints and has done all that is asked for. Pages
// may use JOB, NODE and ID for names.
#include "cli/verbs/program/examples.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
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

// Only parsed here: these start processes, or need people's own data.
constexpr const char* kOnlyParsed[] = {
    "paceline run ",                // tests/integration/command_test.cc
    "paceline drill ",              // tests/examples/drill_test.py
    "paceline init ",               // python/tests/onboard_test.py, tests/integration/init_test.cc
    "paceline dev ",                // tests/integration/dev_test.cc
    "paceline data import-digits",  // cli/digits/digits_test.cc
    "paceline data import-hf ",     // python/tests/import_hf_test.py
    "paceline job samples ",        // cli/tests/checkpoint_files_test.cc
    "paceline admin backup ",       // tests/integration/backup_test.cc
    "paceline admin restore ",      // the same
    "paceline pki ",                // tests/integration/identity_test.cc
    "paceline whoami",              // The same.
    "paceline --tls-dir ",          // tests/deploy/debian_test.py
};

// Of the pages, and of the tutorials, which tests/docs/tutorial_test.py walks.
constexpr const char* kJobNames[] = {"digits",          "story", "my-job", "tough",
                                     "digits-resnet18", "night", "slow",   "three",
                                     "alone",           "fsdp2", "text",   "undisturbed"};
constexpr const char* kNodeNames[] = {"n01", "w0", "w1", "w2", "w3", "w4", "w5"};

struct Placeholder {
  const char* word;
  const char* name;
};
constexpr Placeholder kPlaceholders[] = {
    {"JOB", "digits"}, {"NODE", "w1"}, {"ID", "1"}, {"ADVICE", "1"}};

// A job that has done whatever commands wait for.
constexpr char kDone[] = R"(
    id: 'job-0123456789ab' state: SUCCEEDED revision: 9
    spec { ranks: 2 steps: 500 } progress { step: 500 loss: 0.1 samples_per_s: 80 }
    plan { version: 2 active_version: 2 }
    checkpoints { complete: 1 order { number: 1 state: COMPLETE step: 500 } }
    profile { request { id: 1 first_step: 40 steps: 3 } ranks: 0 ranks: 1 }
    ranks { rank: 0 node: 'w1' profile { id: 1 } } ranks { rank: 1 node: 'w2' profile { id: 1 } })";

bool IsOnlyParsed(const std::string& line) {
  return std::any_of(std::begin(kOnlyParsed), std::end(kOnlyParsed),
                     [&](const char* prefix) { return absl::StartsWith(line, prefix); });
}

// Whether the command runs until Ctrl-C.
bool IsEndless(const std::string& line) {
  return absl::StrContains(line, "--watch") || absl::StrContains(line, "node watch") ||
         line == "paceline job watch";
}

// Words after the program's name in a shell command.
std::vector<std::string> ArgumentsOf(const std::string& line) {
  std::vector<std::string> words = ShellWords(line);
  words.erase(words.begin());
  for (std::string& word : words) {
    for (const Placeholder& placeholder : kPlaceholders) {
      if (word == placeholder.word) word = placeholder.name;
    }
  }
  return words;
}

// Uses a new folder, since examples write files.
class ExampleWorld : public CheckpointTest {
 protected:
  ExampleWorld() : home_(fs::current_path()) {
    environment_["USER"] = "ann";
    environment_["PACELINE_CONFIG"] = root_ + "/config.yaml";
    std::ofstream(root_ + "/config.yaml")
        << "contexts:\n  prod: {server: '" << controller_.address() << "'}\n  lab: {server: lab}\n";
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
    int64_t revision = 1;
    for (const char* name : kNodeNames) {
      nodes.push_back(Parsed<v1::Node>("state: NODE_READY slots: 2"));
      nodes.back().set_name(name);
      v1::NodeEvent& event = events.emplace_back();
      event.set_type(v1::MODIFIED);
      event.set_revision(++revision);
      *event.mutable_node() = Parsed<v1::Node>(
          "state: NODE_DRAINED holds { drain: DRAIN_SWAP } check { id: 1 measurements { name: 'g' "
          "} "
          "}");
      event.mutable_node()->set_name(name);
      event.mutable_node()->set_revision(revision);
    }
    controller_.nodes().SetNodes(nodes);
    controller_.nodes().AddWatch(events);
  }

  Ran RunLine(const std::string& line) {
    if (IsEndless(line)) {
      controller_.OnWatchIdle([this] { interrupt_.Raise(); });
      controller_.nodes().OnWatchIdle([this] { interrupt_.Raise(); });
    }
    return Paceline(ArgumentsOf(line));
  }

  const fs::path home_;
};

// What is wrong with the usage; empty: nothing.
std::string UsageProblem(const std::string& line) {
  Interrupt interrupt;
  std::ostringstream sink;
  Program program({sink, sink, false, 0, [](const char*) { return std::string(); }}, interrupt);
  try {
    ParseCommandLine(*MakeCommandLine(program), ArgumentsOf(line));
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

std::string TextOf(const fs::path& page) {
  std::ifstream in(page);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> Pages() {
  std::vector<fs::path> pages = {"README.md"};
  for (const auto& entry : fs::recursive_directory_iterator("docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  return pages;
}

// A command line of a page.
struct PageLine {
  std::string page;
  std::string line;
};

std::vector<PageLine> LinesOfPages() {
  std::vector<PageLine> lines;
  for (const fs::path& page : Pages()) {
    for (const std::string& line : PacelineLines(TextOf(page))) {
      lines.push_back({page.string(), line});
    }
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

// What is wrong with the command and flags that a text mentions; the rest may be missing. Empty:
// nothing.
std::string MentionProblem(const std::string& mention,
                           const std::vector<CompletionCommand>& commands) {
  std::string path = "paceline";
  const auto at = [&](const std::string& wanted) {
    return std::find_if(commands.begin(), commands.end(),
                        [&](const CompletionCommand& command) { return command.path == wanted; });
  };
  for (const std::string& word : ArgumentsOf(mention)) {
    const auto longer = at(absl::StrCat(path, " ", word));
    if (longer != commands.end()) {
      path = longer->path;
      continue;
    }
    if (std::islower(static_cast<unsigned char>(word[0])) != 0 && !at(path)->subcommands.empty() &&
        path != "paceline") {
      return absl::StrCat("there is no command ", path, " ", word);
    }
    const std::vector<CompletionFlag>& flags = at(path)->flags;
    const bool known = std::any_of(flags.begin(), flags.end(), [&](const CompletionFlag& flag) {
      return std::count(flag.names.begin(), flag.names.end(), word) > 0;
    });
    if (absl::StartsWith(word, "--") && !known) return absl::StrCat(path, " has no ", word);
  }
  return path == "paceline" && !absl::StartsWith(mention, "paceline -")
             ? absl::StrCat("there is no command ", mention)
             : "";
}

TEST(PagesTest, EveryMentionIsOfACommandThatThereIs) {
  Interrupt interrupt;
  std::ostringstream sink;
  Program program({sink, sink, false, 0, [](const char*) { return std::string(); }}, interrupt);
  const auto commands = CompletionCommands(*MakeCommandLine(program));
  int count = 0;
  for (const fs::path& page : Pages()) {
    for (const std::string& mention : PacelineMentions(TextOf(page))) {
      EXPECT_EQ(MentionProblem(mention, commands), "") << page << ": " << mention;
      ++count;
    }
  }
  EXPECT_GT(count, 100);
}

// Commands that read people's own files, or use redirections, are not run here.
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
