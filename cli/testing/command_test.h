// A fixture for tests of verbs: command lines against a controller on a real socket.
#ifndef CLI_TESTING_COMMAND_TEST_H_
#define CLI_TESTING_COMMAND_TEST_H_

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cli/rpc/interrupt.h"
#include "cli/testing/fake_controller.h"

namespace paceline {

// Output and exit code of a command.
struct Ran {
  int exit = 0;
  std::string out;
  std::string err;
};

class CommandTest : public ::testing::Test {
 protected:
  // Runs `paceline` with these arguments, on a terminal of 100 columns or without one.
  Ran Paceline(std::vector<std::string> arguments, bool terminal = false);

  FakeController controller_;
  Interrupt interrupt_;
  std::map<std::string, std::string> environment_ = {{"PACELINE_SERVER", controller_.address()},
                                                     {"PACELINE_DEV_DIR", "/nonexistent"},
                                                     {"PACELINE_PLAINTEXT", "1"}};
  std::string account_;  // The system's name for the user who runs the command.
};

}  // namespace paceline

#endif  // CLI_TESTING_COMMAND_TEST_H_
