// Completion scripts for shells, made from the tree of commands itself. Names of jobs, nodes and so
// on are asked for when they are wanted: `paceline __names KIND`, which is quick and never fails.
#ifndef CLI_COMPLETION_COMPLETION_H_
#define CLI_COMPLETION_COMPLETION_H_

#include <cstddef>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): a name of CLI11.
class App;
}

namespace paceline {

struct CompletionFlag {
  std::vector<std::string> names;  // "--follow", "-f".
  bool takes_value = false;
  std::vector<std::string> choices;  // What the value may be; empty: anything.
  std::string kind;                  // Of its value, in kNameKinds; empty: other things.
  std::string what;
  std::string standard;  // The value that it has when it is not given; may be empty.
};

struct CompletionArgument {
  std::string name;  // "JOB".
  bool required = false;
  bool many = false;
  std::vector<std::string> choices;
  std::string kind;  // As of a flag.
  std::string what;
};

// One command of the tree.
struct CompletionCommand {
  std::string path;  // "paceline job list".
  std::string what;
  std::vector<std::string> subcommands;       // Names.
  std::vector<CompletionArgument> arguments;  // In their order.
  std::vector<CompletionFlag> flags;  // With those of the commands above it, which come last.
  size_t own_flags = 0;               // So many of them are its own.
};

// What `paceline __names` lists.
inline constexpr const char* kNameKinds[] = {"jobs", "nodes", "checkpoints", "contexts"};

// All commands that --help shows, the root first.
std::vector<CompletionCommand> CompletionCommands(const CLI::App& root);

std::string BashCompletion(const std::vector<CompletionCommand>& commands);
std::string ZshCompletion(const std::vector<CompletionCommand>& commands);
std::string FishCompletion(const std::vector<CompletionCommand>& commands);

}  // namespace paceline

#endif  // CLI_COMPLETION_COMPLETION_H_
