#include "cli/command_line.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/completion/completion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Ran {
  int exit = 0;
  std::string out;
  std::string err;
};

Ran Paceline(std::vector<std::string> arguments, int width = 0) {
  Interrupt interrupt;
  std::ostringstream out;
  std::ostringstream err;
  Program program({out, err, false, width, [](const char*) { return std::string(); }}, interrupt);
  Ran ran;
  ran.exit = RunCommandLine(program, std::move(arguments));
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

// Output of a command, which must succeed.
std::string Printed(const std::string& command) {
  FILE* out = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof(buffer), out)) text.append(buffer, got);
  EXPECT_EQ(pclose(out), 0) << command << "\n" << text;
  return text;
}

// A file of this name with this text.
std::string FileOf(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

std::string Quoted(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
    absl::StrAppend(out, "'", word, "'");
  });
}

// What bash completes on a line with these words, the last of which is being typed. `before` runs
// first.
std::string BashCompletes(const std::vector<std::string>& words, const std::string& before = "") {
  return Printed("bash -eu " +
                 FileOf("bash", absl::StrCat(before, Paceline({"completion", "bash"}).out,
                                             "COMP_WORDS=(", Quoted(words), ")\n",
                                             "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_paceline\n",
                                             "echo \"${COMPREPLY[*]}\"\n")));
}

// Choices that zsh gets.
std::string ZshCompletes(const std::vector<std::string>& words, const std::string& before = "") {
  return Printed(
      "zsh -f " +
      FileOf("zsh", absl::StrCat(before,
                                 "compdef() { : }\ncompadd() { shift; print -r -- \"$*\" }\n"
                                 "_files() { print files }\n",
                                 Paceline({"completion", "zsh"}).out, "words=(", Quoted(words),
                                 ")\n", "CURRENT=$#words\n_paceline\n")));
}

// What fish completes on a line, one per line.
std::string FishCompletes(const std::string& line, const std::string& before = "") {
  const std::string home = "HOME=" + ::testing::TempDir() + " ";
  return Printed(home + "fish --no-config " +
                 FileOf("fish", absl::StrCat(before, Paceline({"completion", "fish"}).out,
                                             "complete -C '", line, "'\n")));
}

TEST(CommandLineTest, NothingOrHalfACommandIsWrongUsage) {
  EXPECT_EQ(Paceline({}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"submit"}).exit, kCliUsage);
}

TEST(CommandLineTest, MisspeltCommandIsToldWithTheNearestOne) {
  const Ran ran = Paceline({"jbo", "list"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_EQ(ran.err,
            "error: unknown command \"jbo\"; did you mean \"job\"?\n"
            "  `paceline --help` shows what there is\n");
  EXPECT_THAT(Paceline({"job", "lst"}).err,
              HasSubstr("did you mean \"list\"?\n  `paceline job --help`"));
}

TEST(CommandLineTest, MisspeltFlagIsToldWithTheNearestOne) {
  EXPECT_THAT(Paceline({"submit", "f", "--folow"}).err, HasSubstr("did you mean \"--follow\"?"));
}

TEST(CommandLineTest, ValueThatIsNotAllowedIsWrongUsage) {
  EXPECT_EQ(Paceline({"-o", "xml", "version"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "list", "--state", "lost"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "list", "--timeout", "-1"}).exit, kCliUsage);
}

TEST(CommandLineTest, NumberThatIsNotAllowedIsToldWithThoseThatAre) {
  EXPECT_THAT(Paceline({"job", "resume", "j", "--ranks", "0"}).err,
              StartsWith("error: --ranks: 0 is not allowed; give a whole number of at least 1\n"));
  EXPECT_THAT(
      Paceline({"job", "wait", "j", "--for", "-1"}).err,
      StartsWith("error: --for: -1 is not allowed; give seconds, or a time span such as 10m or "
                 "1h30m, of at least 0 seconds\n"));
  EXPECT_THAT(Paceline({"checkpoint", "export", "j", "--to", "d", "--max-shard-size", "5XB"}).err,
              StartsWith("error: --max-shard-size: 5XB is not allowed; give a whole number above"));
  EXPECT_EQ(Paceline({"job", "resume", "j", "--steps", "3000000000", "--help"}).exit, kCliOk);
}

TEST(CommandLineTest, TimeSpansMayHaveTheirUnit) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"job", "wait", "j", "--for", "1h"},
        {"job", "cancel", "j", "--grace", "500ms"},
        {"checkpoint", "save", "j", "--for", "1h30m"},
        {"node", "cordon", "n", "--reason", "x", "--for", "10m"},
        {"node", "drain", "n", "--deadline", "2h"},
        {"node", "check", "n", "--for", "5m"},
        {"top", "--interval", "1.5s"},
        {"dev", "down", "--grace", "10"},
        {"job", "list", "--timeout", "1m"}}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    EXPECT_EQ(Paceline(arguments).exit, kCliOk) << absl::StrJoin(arguments, " ");
  }
  EXPECT_EQ(Paceline({"job", "wait", "j", "--for", "1 hour"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "wait", "j", "--for", "inf"}).exit, kCliUsage);
}

TEST(CommandLineTest, CommandsOfOtherToolsAreAnsweredWithOurs) {
  for (const auto& [words, meant] :
       {std::pair<std::vector<std::string>, const char*>{{"job", "ls"}, "paceline job list"},
        {{"job", "delete", "j"}, "paceline job cancel JOB"},
        {{"get", "jobs"}, "paceline job list"},
        {{"get", "nodes"}, "paceline node list"},
        {{"get", "job", "j"}, "paceline job describe JOB"},
        {{"describe", "node", "w0"}, "paceline node describe"},
        {{"logs", "j"}, "paceline job logs JOB"},
        {{"ps"}, "paceline job list"},
        {{"node", "ls"}, "paceline node list"},
        {{"checkpoint", "rm", "j/1"}, "paceline checkpoint delete CHECKPOINT"}}) {
    const Ran ran = Paceline(words);
    EXPECT_EQ(ran.exit, kCliUsage);
    EXPECT_THAT(ran.err, HasSubstr(absl::StrCat("; did you mean \"", meant, "\"?")));
  }
}

TEST(CommandLineTest, HelpAndVersionAreFine) {
  EXPECT_EQ(Paceline({"--help"}).exit, kCliOk);
  EXPECT_THAT(Paceline({"--help"}).out, HasSubstr("Exit codes:"));
  EXPECT_EQ(Paceline({"job", "list", "--help"}).exit, kCliOk);
  EXPECT_THAT(Paceline({"version"}).out, HasSubstr("paceline 0."));
  EXPECT_THAT(Paceline({"version", "-o", "json"}).out, HasSubstr("{\"version\": "));
}

TEST(CommandLineTest, HelpFitsTheTerminal) {
  for (const int width : {0, 10, 40, 64, 120}) {
    const size_t most = width == 0 ? 80 : std::max(width, 40);
    for (const std::vector<std::string>& command : {std::vector<std::string>{},
                                                    {"submit"},
                                                    {"job"},
                                                    {"job", "list"},
                                                    {"job", "logs"},
                                                    {"node", "list"},
                                                    {"checkpoint", "export"},
                                                    {"pki", "issue"}}) {
      std::vector<std::string> arguments = command;
      arguments.emplace_back("--help");
      const Ran ran = Paceline(arguments, width);
      for (const absl::string_view line : absl::StrSplit(ran.out, '\n')) {
        if (!absl::StartsWith(line, "  paceline ")) EXPECT_LE(line.size(), most) << line;
      }
    }
  }
  // Descriptions stay in their column.
  EXPECT_THAT(Paceline({"--help"}, 60).out,
              HasSubstr("\n  --context TEXT Excludes: --server\n"
                        "                    Name of a context (`paceline context`).\n"
                        "                    Default: $PACELINE_CONTEXT, else the one\n"
                        "                    in use\n"));
}

TEST(CommandLineTest, NamesAreForCommandsThatListThem) {
  const Ran ran = Paceline({"version", "--output", "name"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_EQ(ran.err, "error: `paceline version` lists no names; --output name is for lists\n");
}

TEST(CommandLineTest, YamlIsTheSameAsJson) {
  EXPECT_THAT(Paceline({"version", "-o", "yaml"}).out, StartsWith("version: \"0."));
}

TEST(CommandLineTest, ServerAndContextExcludeEachOther) {
  EXPECT_THAT(Paceline({"-s", "h", "--context", "c", "version"}).err, HasSubstr("--context"));
}

TEST(CommandLineTest, MissingJobFileIsNotFound) {
  EXPECT_EQ(Paceline({"submit", "/nonexistent.yaml"}).exit, kCliNotFound);
}

TEST(CommandLineTest, EveryCommandAndFlagIsDocumented) {
  std::ifstream in("docs/cli.md");
  std::stringstream text;
  text << in.rdbuf();
  Interrupt interrupt;
  std::ostringstream sink;
  Program program({sink, sink, false, 0, [](const char*) { return std::string(); }}, interrupt);
  for (const CompletionCommand& command : CompletionCommands(*MakeCommandLine(program))) {
    if (command.subcommands.empty()) {
      EXPECT_THAT(text.str(), HasSubstr("`" + command.path)) << command.path;
    }
    for (const CompletionFlag& flag : command.flags) {
      if (flag.names[0] == "--help") continue;
      EXPECT_THAT(text.str(), HasSubstr(flag.names[0])) << command.path;
    }
  }
}

TEST(CompletionTest, BashCompletesCommands) {
  EXPECT_EQ(BashCompletes({"paceline", "jo"}), "job\n");
  EXPECT_EQ(BashCompletes({"paceline", "job", "w"}), "wait watch why\n");
  EXPECT_EQ(BashCompletes({"paceline", "-q", "dev", ""}), "up down status\n");
}

TEST(CompletionTest, BashCompletesFlagsOfTheCommandAndGlobalOnes) {
  EXPECT_EQ(BashCompletes({"paceline", "submit", "--fo"}), "--follow\n");
  EXPECT_EQ(BashCompletes({"paceline", "submit", "--se"}), "--server\n");
}

TEST(CompletionTest, BashCompletesValues) {
  EXPECT_EQ(BashCompletes({"paceline", "job", "list", "-o", ""}), "table wide json yaml name\n");
  EXPECT_THAT(BashCompletes({"paceline", "job", "list", "--state", "r"}), HasSubstr("running"));
}

TEST(CompletionTest, BashCompletesChoicesOfArguments) {
  EXPECT_EQ(BashCompletes({"paceline", "completion", ""}), "bash zsh fish\n");
}

TEST(CompletionTest, BashAsksForNames) {
  // Replaces the program, and prints how it was called.
  const std::string fake = "paceline() { local IFS=+; echo \"ask/$*\"; }\n";
  EXPECT_EQ(BashCompletes({"paceline", "job", "logs", ""}, fake), "ask/__names+jobs\n");
  EXPECT_EQ(BashCompletes({"paceline", "node", "drain", "as"}, fake), "ask/__names+nodes\n");
  EXPECT_EQ(BashCompletes({"paceline", "checkpoint", "pin", ""}, fake),
            "ask/__names+checkpoints\n");
  EXPECT_EQ(BashCompletes({"paceline", "--context", ""}, fake), "ask/__names+contexts\n");
  EXPECT_EQ(BashCompletes({"paceline", "--context", "c", "job", "why", ""}, fake),
            "ask/--context+c+__names+jobs\n");
  EXPECT_EQ(BashCompletes({"paceline", "job", "logs", "--foll"}, fake), "--follow\n");
}

TEST(CompletionTest, BashIsSilentWithoutTheProgram) {
  EXPECT_EQ(BashCompletes({"paceline", "job", "logs", ""}), "\n");
}

TEST(CompletionTest, ZshCompletesCommandsFlagsAndNames) {
  EXPECT_THAT(ZshCompletes({"paceline", "job", "w"}), HasSubstr(" wait watch why"));
  EXPECT_THAT(ZshCompletes({"paceline", "submit", "--fo"}), HasSubstr("--follow"));
  EXPECT_EQ(ZshCompletes({"paceline", "job", "list", "-o", ""}), "table wide json yaml name\n");
  EXPECT_EQ(ZshCompletes({"paceline", "submit", ""}), "files\n");
  EXPECT_EQ(ZshCompletes({"paceline", "job", "logs", ""}, "paceline() { print ask $* }\n"),
            "ask __names jobs\n");
  EXPECT_EQ(ZshCompletes({"paceline", "--context", "c", "job", "why", ""},
                         "paceline() { print ask $* }\n"),
            "ask --context c __names jobs\n");
}

TEST(CompletionTest, FishCompletesCommandsFlagsAndNames) {
  EXPECT_THAT(FishCompletes("paceline job w"), StartsWith("wait\t"));
  EXPECT_THAT(FishCompletes("paceline submit --fo"), StartsWith("--follow\t"));
  EXPECT_THAT(FishCompletes("paceline job list -o "), HasSubstr("yaml\t"));
  EXPECT_THAT(FishCompletes("paceline job logs ", "function paceline\n  echo ask-$argv[2]\nend\n"),
              HasSubstr("ask-jobs\t"));
}

TEST(CompletionTest, HiddenCommandsAreNotOffered) {
  EXPECT_THAT(BashCompletes({"paceline", ""}), Not(HasSubstr("__names")));
}

TEST(CompletionTest, BashLeavesFileNamesToTheShell) {
  EXPECT_EQ(BashCompletes({"paceline", "submit", "d"}), "\n");
}

TEST(CompletionTest, EveryCommandIsInTheScriptOfEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Ran ran = Paceline({"completion", shell});
    EXPECT_EQ(ran.exit, kCliOk);
    for (const char* path : {"paceline job describe", "paceline data import-digits"}) {
      EXPECT_THAT(ran.out, HasSubstr(path)) << shell;
    }
  }
  EXPECT_EQ(Paceline({"completion", "tcsh"}).exit, kCliUsage);
}

TEST(ManTest, PageHasEveryCommandAndNoFaults) {
  const Ran ran = Paceline({"man"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_THAT(ran.out, HasSubstr(".SS \\fBpaceline job logs\\fR \\fIJOB\\fR\n"));
  EXPECT_THAT(ran.out, HasSubstr("paceline job list \\-\\-state running,queued\n"));
  EXPECT_EQ(Printed("groff -man -Tutf8 -ww -b -z " + FileOf("paceline.1", ran.out)), "");
}

}  // namespace
}  // namespace paceline
