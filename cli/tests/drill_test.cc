// What `paceline drill` refuses before it starts anything. Whole drills:
// tests/examples/drill_test.py.
#include <fstream>
#include <string>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DrillTest : public CommandTest {
 protected:
  static std::string JobFilePath(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".yaml";
    std::ofstream(path) << "name: my-net\nranks: 2\nsteps: 1000\n" << text;
    return path;
  }
  static constexpr char kSession[] = "command: [python3, train.py]\nsession: true\n";
};

TEST_F(DrillTest, OnlySessionsHaveDrills) {
  const Ran ran = Paceline({"drill", JobFilePath("command: [python3, train.py]\n")});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("is no session"), HasSubstr("session: true")));
}

TEST_F(DrillTest, ProblemsOfTheFileAreToldAtTheirPlaces) {
  const Ran ran = Paceline({"drill", JobFilePath(std::string(kSession) + "rankz: 3\n")});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr(".yaml:6:1: "));
  EXPECT_EQ(Paceline({"drill", "/nonexistent.yaml"}).exit, kCliNotFound);
}

TEST_F(DrillTest, OnTheClusterOfOthersALedgerNeedsADirectory) {
  const Ran ran = Paceline({"drill", JobFilePath(kSession), "--on-cluster"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, HasSubstr("checkpoint.directory"));
  EXPECT_THAT(controller_.submits(), SizeIs(0));
}

TEST_F(DrillTest, TheSmallDiskIsThereAndCanBeWritten) {
  const Ran ran = Paceline({"drill", JobFilePath(kSession), "--full-disk", "/proc"});
  EXPECT_NE(ran.exit, kCliOk) << "nothing can be made there";
  EXPECT_EQ(Paceline({"drill", JobFilePath(kSession), "--full-disk", "/nonexistent"}).exit,
            kCliNotFound);
}

TEST_F(DrillTest, FaultsAndStepsThatThereAreNot) {
  const std::string path = JobFilePath(kSession);
  EXPECT_EQ(Paceline({"drill", path, "--only", "kill,flood"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"drill", path, "--steps", "3"}).exit, kCliUsage);
}

}  // namespace
}  // namespace paceline
