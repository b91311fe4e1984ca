// Whom changes come from, as the controller is told with each call, for its audit record.
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace paceline {
namespace {

class UserTest : public CommandTest {
 protected:
  UserTest() {
    v1::Checkpoint checkpoint;
    checkpoint.set_job_id("job-0123456789ab");
    checkpoint.set_job_name("small");
    checkpoint.set_step(60);
    controller_.SetCheckpoints({checkpoint});
    v1::JobAdvice advice;
    advice.add_decisions()->set_id(3);
    controller_.SetAdvice(std::move(advice));
  }

  // What was sent with a change that has no owner.
  std::optional<std::string> SentByDelete() {
    const Ran ran = Paceline({"checkpoint", "delete", "small/60"});
    EXPECT_EQ(ran.exit, kCliOk) << ran.err;
    return controller_.last_user();
  }
};

TEST_F(UserTest, IsSentWithChangesThatHaveNoOwner) {
  environment_["USER"] = "ann";
  EXPECT_EQ(SentByDelete(), "ann");
  const std::string file = ::testing::TempDir() + "/user.yaml";
  std::ofstream(file) << "name: small\nmodel: resnet18\ndata: {train: t}\nsteps: 100\n"
                         "optimizer: {kind: sgd, learning_rate: 0.1}\n";
  environment_["USER"] = "bob";
  const Ran ran = Paceline({"submit", file, "--parsable"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(controller_.last_user(), "bob");
}

TEST_F(UserTest, TheOwnerThatIsSaidIsSent) {
  environment_["USER"] = "ann";
  EXPECT_EQ(Paceline({"job", "apply", "small", "3", "--owner", "bob"}).exit, kCliOk);
  EXPECT_EQ(controller_.last_user(), "bob");
  EXPECT_EQ(Paceline({"job", "apply", "small", "3"}).exit, kCliOk);
  EXPECT_EQ(controller_.last_user(), "ann");
}

TEST_F(UserTest, NothingIsSentOfAUserWithoutAName) {
  EXPECT_EQ(SentByDelete(), std::nullopt);
  environment_["LOGNAME"] = "ann";
  EXPECT_EQ(SentByDelete(), "ann");
}

TEST_F(UserTest, WhatIsNotPrintableAsciiIsEncoded) {
  environment_["USER"] = "J\xc3\xbcrgen 100%\n";
  EXPECT_EQ(SentByDelete(), "J%C3%BCrgen%20100%25%0A");
  environment_["USER"] = std::string(20000, 'x');
  EXPECT_EQ(SentByDelete(), std::string(256, 'x'));
}

}  // namespace
}  // namespace paceline
