// The verbs about the daemons themselves against a controller on a real socket.
#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class AdminTest : public CommandTest {
 protected:
  AdminTest() { environment_["USER"] = "ann"; }
};

TEST_F(AdminTest, LogLevelIsShownAndChanged) {
  EXPECT_EQ(Paceline({"admin", "log-level"}).out, "controller: info\n");
  EXPECT_EQ(Paceline({"admin", "log-level", "debug"}).out, "controller: debug\n");
  EXPECT_EQ(controller_.admin().last().owner(), "ann");
  EXPECT_NE(controller_.admin().last().request_id(), "");
  EXPECT_EQ(Paceline({"admin", "log-level"}).out, "controller: debug\n");
}

TEST_F(AdminTest, LogLevelOfANode) {
  EXPECT_EQ(Paceline({"admin", "log-level", "--node", "a"}).out, "a: default\n");
  EXPECT_EQ(Paceline({"admin", "log-level", "error", "--node", "a"}).out, "a: error\n");
  EXPECT_EQ(Paceline({"admin", "log-level", "default", "--node", "a"}).out, "a: default\n");
  EXPECT_EQ(controller_.admin().last().node(), "a");
  EXPECT_EQ(Paceline({"admin", "log-level", "--node", "nowhere"}).exit, kCliNotFound);
}

TEST_F(AdminTest, LogLevelMustBeOneAndSomebodysWish) {
  const Ran ran = Paceline({"admin", "log-level", "loud"});
  EXPECT_EQ(ran.exit, kCliUsage);
  EXPECT_THAT(ran.err, HasSubstr("debug"));
  environment_.erase("USER");
  EXPECT_EQ(Paceline({"admin", "log-level", "debug"}).exit, kCliUsage);
}

TEST_F(AdminTest, LogLevelAsJson) {
  EXPECT_THAT(Paceline({"--output", "json", "admin", "log-level"}).out,
              HasSubstr("\"level\": \"LOG_LEVEL_INFO\""));
}

}  // namespace
}  // namespace paceline
