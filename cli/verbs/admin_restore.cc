// paceline admin restore FILE --state-dir DIR
#include <sys/stat.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/neutral.h"
#include "cli/verbs/verbs.h"
#include "controller/store/state_file.h"

namespace paceline {
namespace {

struct RestoreFlags {
  std::string file;
  std::string state_dir;
  bool force = false;
};

int RestoreVerb(Program& program, const RestoreFlags& flags) {
  // As the controller does: the state tells of everybody's jobs.
  ::umask(077);
  const absl::StatusOr<Restoration> restored =
      RestoreState(flags.file, flags.state_dir, flags.force, absl::Now());
  if (!restored.ok()) return program.Fail(restored.status());
  if (program.json()) {
    const nlohmann::json json = {
        {"state_dir", flags.state_dir}, {"kept", restored->kept}, {"number", restored->number}};
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  program.out() << NeutralLine(flags.state_dir) << " holds the state of " << NeutralLine(flags.file)
                << "\n";
  if (!restored->kept.empty()) {
    program.out() << "the state before is kept as " << NeutralLine(restored->kept) << "\n";
  }
  program.out() << "start the controller: jobs that trained then go on from their newest "
                   "checkpoints"
                << std::endl;
  return kCliOk;
}

}  // namespace

void AddAdminRestore(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<RestoreFlags>();
  CLI::App* verb = parent.add_subcommand(
      "restore", "Put a backup in the place of a controller's state, while it is stopped");
  verb->add_option("FILE", flags->file, "Of paceline admin backup")->required();
  verb->add_option("--state-dir", flags->state_dir, "State directory of the controller")
      ->required();
  verb->add_flag("--force", flags->force,
                 "Also if the directory holds a state, which is kept under another name");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return RestoreVerb(program, *flags); };
  });
}

}  // namespace paceline
