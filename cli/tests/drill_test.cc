// What `paceline drill` refuses before it starts anything, and how it ends where it cannot go on.
// Whole drills: tests/examples/drill_test.py.
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class DrillTest : public CommandTest {
 protected:
  static std::string PathWith(const std::string& ending) {
    return ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + ending;
  }
  static std::string JobFilePath(const std::string& text) {
    const std::string path = PathWith(".yaml");
    std::ofstream(path) << "name: my-net\nranks: 2\nsteps: 1000\n" << text;
    return path;
  }
  // Of a session that saves in `saves`.
  static std::string SavingJobFilePath(const std::string& saves) {
    return JobFilePath(std::string(kSession) + "checkpoint: {directory: " + saves +
                       ", every_steps: 100}\n");
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

TEST_F(DrillTest, AControllerThatIsNotThereIsToldAndNothingIsLeft) {
  const std::string saves = PathWith(".saves");
  const Ran ran =
      Paceline({"--server", "127.0.0.1:1", "--timeout", "0.1", "drill", SavingJobFilePath(saves)});
  EXPECT_EQ(ran.exit, kCliUnavailable);
  EXPECT_THAT(ran.err, HasSubstr("the controller at 127.0.0.1:1 does not answer"));
  EXPECT_EQ(ran.out, "") << "no report card";
  EXPECT_TRUE(std::filesystem::is_empty(saves));
}

TEST_F(DrillTest, AnInterruptCancelsTheJobAndLeavesNothing) {
  const std::string saves = PathWith(".saves");
  v1::Job job;
  job.set_id("job-0123456789ab");  // The one that is submitted.
  job.set_state(v1::RUNNING);
  controller_.SetJobs({job});
  controller_.AddWatch({{}, std::nullopt});
  controller_.OnWatchIdle([this, ended = job]() mutable {
    interrupt_.Raise();
    ended.set_state(v1::CANCELLED);
    controller_.SetJobs({ended});
  });
  const Ran ran = Paceline({"drill", SavingJobFilePath(saves), "--on-cluster"});
  EXPECT_EQ(ran.exit, kCliInterrupted);
  EXPECT_EQ(ran.out, "") << "no report card";
  EXPECT_THAT(ran.err, Not(HasSubstr("error")));
  ASSERT_THAT(controller_.cancels(), SizeIs(1));
  EXPECT_EQ(controller_.cancels()[0].job(), job.id());
  EXPECT_THAT(controller_.submits(), SizeIs(1)) << "nothing else is rehearsed";
  EXPECT_TRUE(std::filesystem::is_empty(saves));
}

}  // namespace
}  // namespace paceline
