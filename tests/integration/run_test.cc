// `paceline run`, which makes a cluster of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/new_folder.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// `paceline run` in a folder of its own, on a cluster that it makes.
class RunTest : public ::testing::Test {
 protected:
  RunTest() : folder_(NewFolder()) {
    ::setenv("TMPDIR", folder_.c_str(), 1);
    ::setenv("PACELINE_DEV_DIR", (folder_ + "/none").c_str(), 1);
    ::setenv("PACELINE_CONFIG", (folder_ + "/none.yaml").c_str(), 1);
  }
  ~RunTest() override {
    for (const char* name : {"TMPDIR", "PACELINE_DEV_DIR", "PACELINE_CONFIG"}) ::unsetenv(name);
  }

  std::vector<std::string> Run(const std::string& script) const {
    std::ofstream(folder_ + "/own.sh") << "cd " << folder_ << "\n" << script;
    return {Program("paceline"), "run", "bash", folder_ + "/own.sh", "--lr", "3"};
  }
  std::string Text(const std::string& name) const { return ReadFile(folder_ + "/" + name); }
  // Nothing of the cluster is left.
  void ExpectNothingLeft() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_THAT(entry.path().filename().string(), Not(StartsWith("paceline-run"))) << entry;
    }
  }

  const std::string folder_;
};

TEST_F(RunTest, EndsAsTheScriptDoesAndLeavesNothing) {
  Process run(Run("echo $RANK of $WORLD_SIZE: $*; exit 7\n"), folder_ + "/out");
  EXPECT_EQ(run.Wait(), 7);
  EXPECT_THAT(Text("out"), StartsWith("0 of 1: --lr 3\n"));
  ExpectNothingLeft();
}

TEST_F(RunTest, NodesOfTorchrunAreNodes) {
  std::vector<std::string> command = Run("echo $LOCAL_RANK of $LOCAL_WORLD_SIZE on $GROUP_RANK\n");
  command.insert(command.begin() + 2, {"--nnodes", "2", "--nproc-per-node=2", "--all-ranks"});
  Process run(command, folder_ + "/out");
  EXPECT_EQ(run.Wait(), 0);
  for (const char* line : {"0 of 2 on 0\n", "1 of 2 on 0\n", "0 of 2 on 1\n", "1 of 2 on 1\n"}) {
    EXPECT_THAT(Text("out"), HasSubstr(line));
  }
  ExpectNothingLeft();
}

TEST_F(RunTest, CtrlCStopsTheScriptAndTakesTheClusterDown) {
  Process run(Run("trap 'echo saved; exit 0' TERM\necho $$ > pid\n"
                  "while true; do sleep 0.01; done\n"),
              folder_ + "/out");
  ASSERT_TRUE(Eventually([&] { return !Text("pid").empty(); })) << Text("out");
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_THAT(Text("out"), AllOf(HasSubstr("saved\n"), HasSubstr("Ctrl-C again kills it")));
  ExpectNothingLeft();
}

TEST_F(RunTest, AClosedTerminalTakesTheClusterDownToo) {
  ::signal(SIGHUP, SIG_DFL);  // Whatever started this test.
  Process run(Run("trap 'echo saved > saved; exit 0' TERM\necho $$ > pid\n"
                  "while true; do sleep 0.01; done\n"),
              folder_ + "/out");
  ASSERT_TRUE(Eventually([&] { return !Text("pid").empty(); })) << Text("out");
  // Both the kernel and a shell may send it.
  run.Signal(SIGHUP);
  run.Signal(SIGHUP);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_EQ(Text("saved"), "saved\n");
  ExpectNothingLeft();
}

TEST_F(RunTest, ASecondCtrlCKillsTheScript) {
  std::vector<std::string> command =
      Run("trap 'echo no > no' TERM\necho $$ > pid\nwhile true; do sleep 0.01; done\n");
  command.insert(command.begin() + 2, {"--stop-grace", "1h"});
  Process run(command, folder_ + "/out");
  ASSERT_TRUE(Eventually([&] { return !Text("pid").empty(); })) << Text("out");
  run.Signal(SIGINT);
  ASSERT_TRUE(Eventually([&] { return !Text("no").empty(); })) << Text("out");
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_NE(::kill(std::stoi(Text("pid")), 0), 0);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace paceline
