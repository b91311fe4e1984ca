// `paceline init` and `paceline data import-hf`, which start Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/integration/new_folder.h"
#include "tests/integration/process.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kScript[] = R"(import torch
from net import Net, loader
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    model(x).backward()
    optimizer.step()
    optimizer.zero_grad()
)";

class InitTest : public ::testing::Test {
 protected:
  InitTest() : folder_(NewFolder()) {
    std::ofstream(folder_ + "/train.py") << kScript;
    // Nothing of the user's is imported.
    for (const char* name : {"json", "torch", "net", "paceline"}) {
      std::ofstream(folder_ + "/" + name + ".py") << "raise SystemExit(9)\n";
    }
  }

  // In the script's folder.
  Finished Init(const std::string& arguments) const {
    return RunToEnd(
        {"/bin/bash", "-c",
         "program=$(realpath \"$0\") && cd \"$1\" && exec \"$program\" init " + arguments,
         Program("paceline"), folder_});
  }

  const std::string folder_;
};

TEST_F(InitTest, ShowsWhatItProposesAndWritesItWhenAsked) {
  const Finished shown = Init("train.py");
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, AllOf(HasSubstr("+run = paceline.init()\n"),
                                  HasSubstr("+session: true\n"), HasSubstr("Nothing was written")));
  EXPECT_EQ(ReadFile(folder_ + "/train.py"), kScript);
  EXPECT_EQ(Init("--write train.py").exit_code, 0);
  EXPECT_THAT(ReadFile(folder_ + "/train.py"), HasSubstr("for step in run.steps():\n"));
  EXPECT_THAT(ReadFile(folder_ + "/train.yaml"), HasSubstr("command: [python3, train.py]\n"));
  const Finished again = Init("train.py -o json");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("\"outcome\": \"session\""));
}

TEST_F(InitTest, SaysWhatItDoesNotUnderstand) {
  const Finished unclear = Init("net.py");
  EXPECT_EQ(unclear.exit_code, 1) << unclear.output;
  EXPECT_THAT(unclear.output, HasSubstr("net.py:1: stopped here: no training loop was found"));
  EXPECT_EQ(Init("none.py").exit_code, 3);
  EXPECT_EQ(Init("train.py -o yaml").exit_code, 2);
}

// Of an environment whose Python only shows what it is called with.
TEST_F(InitTest, ImportHfHandsItsArgumentsToTheActivePython) {
  namespace fs = std::filesystem;
  fs::create_directories(folder_ + "/venv/bin");
  const std::string python = folder_ + "/venv/bin/python3";
  std::ofstream(python) << "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n";
  fs::permissions(python, fs::perms::owner_all);
  const Finished shown =
      RunToEnd({"/usr/bin/env", "VIRTUAL_ENV=" + folder_ + "/venv", Program("paceline"), "data",
                "import-hf", "a.jsonl", "b", "--tokenizer", "t.json", "--out", "o.tokens",
                "--end-token", "", "--eval-out", "e.tokens", "--workers", "3", "-o", "json"});
  EXPECT_EQ(shown.exit_code, 7) << shown.output;
  EXPECT_THAT(
      shown.output,
      HasSubstr("\npaceline.import_hf.__main__\n--output\njson\n--tokenizer\nt.json\n--out\n"
                "o.tokens\n--end-token=\n--eval-out\ne.tokens\n--eval-share\n0.005\n"
                "--workers\n3\n--\na.jsonl\nb\n"));
}

}  // namespace
}  // namespace paceline
