// `paceline init`, which starts Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace paceline
