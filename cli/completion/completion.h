// Completion scripts for shells, made from the tree of commands. Names of jobs, nodes and so on are
// looked up when needed, by `paceline __names KIND`, which is quick and never fails.
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
  std::vector<std::string> choices;  // Allowed values; empty: any.
  std::string kind;                  // Kind of names of its value, in kNameKinds; empty: none.
  std::string what;
  std::string standard;  // Default value; may be empty.
};

struct CompletionArgument {
  std::string name;  // "JOB".
  bool required = false;
  bool many = false;
  std::vector<std::string> choices;
  std::string kind;  // As for a flag.
  std::string what;
};

// One command of the tree.
struct CompletionCommand {
  std::string path;  // "paceline job list".
  std::string what;
  std::vector<std::string> subcommands;       // Their names.
  std::vector<CompletionArgument> arguments;  // In order.
  std::vector<CompletionFlag> flags;          // Its own, then those of the commands above it.
  size_t own_flags = 0;                       // Number of its own flags.
};

// Kinds that `paceline __names` lists.
inline constexpr const char* kNameKinds[] = {"jobs", "nodes", "checkpoints", "contexts"};

// Returns all commands that --help shows, the root first.
std::vector<CompletionCommand> CompletionCommands(const CLI::App& root);

std::string BashCompletion(const std::vector<CompletionCommand>& commands);
std::string ZshCompletion(const std::vector<CompletionCommand>& commands);
std::string FishCompletion(const std::vector<CompletionCommand>& commands);

}  // namespace paceline

#endif  // CLI_COMPLETION_COMPLETION_H_
