// paceline completion bash|zsh|fish
#include "cli/completion/completion.h"

#include <memory>
#include <string>
#include <vector>

#include "cli/verbs/verbs.h"

namespace paceline {

void AddCompletion(CLI::App& parent, Program& program) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand("completion", "Print a completion script for a shell");
  verb->add_option("SHELL", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([shell, &parent, &program] {
    program.action = [shell, &parent, &program] {
      const std::vector<CompletionCommand> commands = CompletionCommands(parent);
      program.out() << (*shell == "bash"  ? BashCompletion(commands)
                        : *shell == "zsh" ? ZshCompletion(commands)
                                          : FishCompletion(commands));
      return kCliOk;
    };
  });
}

}  // namespace paceline
