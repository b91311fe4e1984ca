// The command line of `paceline`: all verbs, the global flags, and the messages about wrong usage.
#ifndef CLI_COMMAND_LINE_H_
#define CLI_COMMAND_LINE_H_

#include <memory>
#include <string>
#include <vector>

#include "cli/program.h"

namespace CLI {  // NOLINT(readability-identifier-naming): a name of CLI11.
class App;
}

namespace paceline {

// The whole tree of commands. `program` outlives it.
std::unique_ptr<CLI::App> MakeCommandLine(Program& program);

// `arguments` exclude the program's name. Throws CLI::ParseError.
void ParseCommandLine(CLI::App& app, std::vector<std::string> arguments);

// Parses, runs the verb, and returns the exit code (cli/exit_codes.h). `arguments` exclude the
// program's name.
int RunCommandLine(Program& program, std::vector<std::string> arguments);

}  // namespace paceline

#endif  // CLI_COMMAND_LINE_H_
