// paceline man
#include "cli/completion/man_page.h"
#include "cli/verbs/examples.h"
#include "cli/verbs/verbs.h"
#include "common/version.h"

namespace paceline {

void AddMan(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand("man", "Print the manual page, paceline.1");
  verb->group("");
  verb->callback([&parent, &program] {
    program.action = [&parent, &program] {
      program.out() << ManPage(CompletionCommands(parent), kVersion, ExamplesText);
      return kCliOk;
    };
  });
}

}  // namespace paceline
