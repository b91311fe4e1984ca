// paceline init SCRIPT: proposes how a script becomes a session. The Python package of Paceline
// reads the script (python/paceline/onboard); this verb runs it.
#include <memory>
#include <string>
#include <vector>

#include "cli/verbs/program/python_module.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"

namespace paceline {
namespace {

struct InitFlags {
  std::string script;
  bool write = false;
};

int Init(Program& program, const InitFlags& flags) {
  std::vector<std::string> arguments;
  if (flags.write) arguments.push_back("--write");
  arguments.insert(arguments.end(), {"--", flags.script});
  return RunPythonVerb(program, "init", "onboard", arguments);
}

}  // namespace

void AddInit(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<InitFlags>();
  CLI::App* verb = parent.add_subcommand(
      "init", "Propose how a PyTorch script becomes a session, and its job file (docs/session.md)");
  verb->add_option("SCRIPT", flags->script, "Python script with the training loop")
      ->check(PlainPath())
      ->required();
  verb->add_flag("--write", flags->write,
                 "Write what is proposed. Default: show it, and ask if this is a terminal");
  RunWith(*verb, program, flags, Init);
}

}  // namespace paceline
