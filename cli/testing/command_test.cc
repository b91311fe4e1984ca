#include "cli/testing/command_test.h"

#include <sstream>
#include <utility>

#include "cli/command_line.h"
#include "cli/program.h"

namespace paceline {

Ran CommandTest::Paceline(std::vector<std::string> arguments, bool terminal) {
  std::ostringstream out;
  std::ostringstream err;
  const auto variable = [this](const char* name) {
    const auto at = environment_.find(name);
    return at == environment_.end() ? "" : at->second;
  };
  Surroundings surroundings{out, err, terminal, terminal ? 100 : 0, variable};
  surroundings.account = [this] { return account_; };
  Program program(surroundings, interrupt_);
  Ran ran;
  ran.exit = RunCommandLine(program, std::move(arguments));
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

}  // namespace paceline
