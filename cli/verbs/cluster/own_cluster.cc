#include "cli/verbs/cluster/own_cluster.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/dev/process.h"
#include "cli/verbs/cluster/dev_start.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

constexpr absl::Duration kClusterGrace = absl::Seconds(2);

}  // namespace

OwnCluster::~OwnCluster() {
  if (!cluster_.has_value()) return;
  // What it leaves is told by nobody else.
  const absl::StatusOr<int> ended = cluster_->Stop(kClusterGrace);
  const absl::Status purged = ended.ok() ? cluster_->Purge() : ended.status();
  if (!purged.ok() && program_ != nullptr) {
    program_->Note(absl::StrCat("warning: ", purged.message(), "; see ", dir_.root));
  }
}

absl::Status OwnCluster::Start(Program& program, const std::string& name,
                               const DevSettings& settings) {
  std::error_code none;
  std::string root =
      (std::filesystem::temp_directory_path(none) / absl::StrCat(name, "-XXXXXX")).string();
  if (::mkdtemp(root.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", root));
  }
  program_ = &program;
  dir_ = DevDirAt(root);
  settings_ = settings;
  PACELINE_ASSIGN_OR_RETURN(DevCluster cluster, DevCluster::Open(dir_));
  cluster_.emplace(std::move(cluster));
  const auto started = StartDevCluster(program, *cluster_, dir_, settings_, ProgramDir());
  if (!started.ok()) return started.status();
  program.flags.server = ReadAddresses(ControllerPlace(dir_)).grpc;
  program.flags.plaintext = true;
  return absl::OkStatus();
}

absl::Status OwnCluster::KillController() {
  const DaemonPlace controller = ControllerPlace(dir_);
  return EndProcess([&controller] { return controller.Pid(); }, absl::ZeroDuration());
}

absl::Status OwnCluster::StartController() {
  return StartDevCluster(*program_, *cluster_, dir_, settings_, ProgramDir()).status();
}

void EndWithTheTerminal() {
  const auto pass_on = [](int) {
    ::signal(SIGHUP, SIG_IGN);
    ::kill(::getpid(), SIGTERM);
  };
  if (::signal(SIGHUP, pass_on) == SIG_IGN) ::signal(SIGHUP, SIG_IGN);
}

}  // namespace paceline
