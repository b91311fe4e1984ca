#include "cli/command_line.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/completion/completion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Ran {
  int exit = 0;
  std::string out;
  std::string err;
};

Ran Paceline(std::vector<std::string> arguments) {
  Interrupt interrupt;
  std::ostringstream out;
  std::ostringstream err;
  Program program({out, err, false, 0, [](const char*) { return std::string(); }}, interrupt);
  Ran ran;
  ran.exit = RunCommandLine(program, std::move(arguments));
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

// What bash completes for `line`, whose last word is the one being typed.
std::string BashCompletes(const std::vector<std::string>& words) {
  const std::string script = ::testing::TempDir() + "/completion.bash";
  std::ofstream(script) << Paceline({"completion", "bash"}).out << "COMP_WORDS=("
                        << absl::StrJoin(words, " ",
                                         [](std::string* out, const std::string& w) {
                                           absl::StrAppend(out, "'", w, "'");
                                         })
                        << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_paceline\n"
                        << "echo \"${COMPREPLY[*]}\"\n";
  FILE* bash = popen(absl::StrCat("bash -eu ", script, " 2>&1").c_str(), "r");
  char text[4096] = "";
  const size_t size = fread(text, 1, sizeof(text) - 1, bash);
  EXPECT_EQ(pclose(bash), 0) << text;
  return std::string(text, size);
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
  EXPECT_EQ(Paceline({"-o", "yaml", "version"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "list", "--state", "lost"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "list", "--timeout", "-1"}).exit, kCliUsage);
}

TEST(CommandLineTest, NumberThatIsNotAllowedIsToldWithThoseThatAre) {
  EXPECT_THAT(Paceline({"job", "resume", "j", "--ranks", "0"}).err,
              StartsWith("error: --ranks: 0 is not allowed; give a whole number of at least 1\n"));
  EXPECT_THAT(Paceline({"job", "wait", "j", "--for", "-1"}).err,
              StartsWith("error: --for: -1 is not allowed; give a number of at least 0\n"));
  EXPECT_THAT(Paceline({"checkpoint", "export", "j", "--to", "d", "--max-shard-size", "5XB"}).err,
              StartsWith("error: --max-shard-size: 5XB is not allowed; give a whole number above"));
  EXPECT_EQ(Paceline({"job", "resume", "j", "--steps", "3000000000", "--help"}).exit, kCliOk);
}

TEST(CommandLineTest, HelpAndVersionAreFine) {
  EXPECT_EQ(Paceline({"--help"}).exit, kCliOk);
  EXPECT_THAT(Paceline({"--help"}).out, HasSubstr("Exit codes:"));
  EXPECT_EQ(Paceline({"job", "list", "--help"}).exit, kCliOk);
  EXPECT_THAT(Paceline({"version"}).out, HasSubstr("paceline 0."));
  EXPECT_THAT(Paceline({"version", "-o", "json"}).out, HasSubstr("{\"version\": "));
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
  EXPECT_EQ(BashCompletes({"paceline", "job", "list", "-o", ""}), "table json\n");
  EXPECT_THAT(BashCompletes({"paceline", "job", "list", "--state", "r"}), HasSubstr("running"));
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

}  // namespace
}  // namespace paceline
