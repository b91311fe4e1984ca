// Completion scripts for shells, made from the tree of commands itself.
#ifndef CLI_COMPLETION_COMPLETION_H_
#define CLI_COMPLETION_COMPLETION_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"

namespace paceline {

struct CompletionFlag {
  std::vector<std::string> names;  // "--follow", "-f".
  bool takes_value = false;
  std::vector<std::string> choices;  // What the value may be; empty: anything.
  std::string what;
};

// One command of the tree.
struct CompletionCommand {
  std::string path;  // "paceline job list".
  std::string what;
  std::vector<std::string> subcommands;  // Names.
  std::vector<CompletionFlag> flags;     // With those of the commands above it.
};

// All commands, the root first.
std::vector<CompletionCommand> CompletionCommands(const CLI::App& root);

std::string BashCompletion(const std::vector<CompletionCommand>& commands);
std::string ZshCompletion(const std::vector<CompletionCommand>& commands);
std::string FishCompletion(const std::vector<CompletionCommand>& commands);

}  // namespace paceline

#endif  // CLI_COMPLETION_COMPLETION_H_
