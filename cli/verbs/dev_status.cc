// paceline dev status
#include <memory>
#include <string>

#include "cli/verbs/dev_common.h"
#include "cli/verbs/verbs.h"

namespace paceline {

void AddDevStatus(CLI::App& parent, Program& program) {
  const auto dir = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand(
      "status", "Show the cluster's daemons; exit code 4 unless all of them run");
  AddDirFlag(*verb, *dir);
  verb->callback([dir, &program] {
    program.action = [dir, &program] {
      return ShowCluster(program, ChosenDevDir(program, *dir)) ? kCliOk : kCliRefused;
    };
  });
}

}  // namespace paceline
