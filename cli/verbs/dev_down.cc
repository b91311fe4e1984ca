// paceline dev down
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/dev/dev_cluster.h"
#include "cli/verbs/dev_common.h"
#include "cli/verbs/verbs.h"

namespace paceline {
namespace {

struct DevDownFlags {
  std::string dir;
  bool purge = false;
  double grace_s = 5;
};

int Down(Program& program, const DevDownFlags& flags) {
  const DevDir dir = ChosenDevDir(program, flags.dir);
  std::error_code none;
  if (!std::filesystem::exists(dir.root, none)) {
    program.Note(absl::StrCat("there is no cluster in ", dir.root));
    return kCliOk;
  }
  absl::StatusOr<DevCluster> cluster = DevCluster::Open(dir);
  if (!cluster.ok()) return program.Fail(cluster.status());
  const absl::StatusOr<int> ended = cluster->Stop(absl::Seconds(flags.grace_s));
  if (!ended.ok()) return program.Fail(ended.status());
  if (flags.purge) {
    const absl::Status purged = cluster->Purge();
    if (!purged.ok()) return program.Fail(purged);
  }
  program.Note(
      absl::StrCat(*ended == 0 ? "nothing ran" : absl::StrCat("ended ", *ended, " processes"),
                   flags.purge ? "; removed " : "; state and logs stay in ", dir.root));
  return kCliOk;
}

}  // namespace

void AddDevDown(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<DevDownFlags>();
  CLI::App* verb = parent.add_subcommand("down", "End the cluster, with every trainer of it");
  verb->add_flag("--purge", flags->purge, "Remove its state and logs too");
  verb->add_option("--grace", flags->grace_s,
                   "Seconds between asking a process to stop and killing it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddDirFlag(*verb, flags->dir);
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Down(program, *flags); }; });
}

}  // namespace paceline
