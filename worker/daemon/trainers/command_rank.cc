#include "worker/daemon/trainers/command_rank.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/core/host_port.h"
#include "common/core/status_macros.h"
#include "worker/daemon/logs/log_files.h"
#include "worker/daemon/trainers/process_state.h"
#include "worker/daemon/trainers/trainer_environment.h"
#include "worker/link/interface_host.h"
#include "worker/shim/small_file.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {

CommandRank::CommandRank(const TrainerSetup& setup, TrainerId id)
    : setup_(setup), id_(std::move(id)) {}

absl::Status CommandRank::CheckAccepted() const {
  if (setup_.takes_commands) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("node ", setup_.node, " takes no commands (--commands off)"));
}

absl::StatusOr<int> CommandRank::ReservePort() {
  if (id_.rank != Rank(0)) {
    PACELINE_ASSIGN_OR_RETURN(port_, ReservedPort::Take(0));
    return port_->port();
  }
  // Keep an earlier daemon's port: other ranks may have been given it.
  PACELINE_ASSIGN_OR_RETURN(const std::optional<std::string> kept,
                            ReadSmallFile(File(trainer_dir::kPort)));
  int port = 0;
  if (kept.has_value() && !absl::SimpleAtoi(*kept, &port)) port = 0;
  PACELINE_ASSIGN_OR_RETURN(port_, ReservedPort::Take(port));
  PACELINE_RETURN_IF_ERROR(WriteSmallFile(File(trainer_dir::kPort), absl::StrCat(port_->port())));
  return port_->port();
}

absl::Status CommandRank::WriteEnvironment(const v1::TrainerPlan& plan, bool measured) const {
  const v1::JobSpec& spec = plan.spec();
  CommandSurroundings surroundings;
  if (!spec.session()) {
    PACELINE_ASSIGN_OR_RETURN(const HostPort master, ParseHostPort(plan.store_address()));
    surroundings.master_host = master.host;
    surroundings.master_port = master.port;
  }
  surroundings.own_dir = setup_.paths.OwnDir(id_);
  surroundings.socket = setup_.paths.Socket();
  surroundings.device = InterfaceDevice(setup_.interface);
  surroundings.threads =
      spec.threads_per_rank() > 0 ? spec.threads_per_rank() : setup_.default_threads;
  surroundings.orphan_timeout_s = setup_.orphan_timeout_s;
  if (measured) {
    surroundings.ring = setup_.paths.Ring(id_);
    surroundings.watch_dir = setup_.watch_dir;
  }
  std::string environment;
  for (const std::string& entry :
       CommandEnvironment(setup_.command_environment, plan, surroundings)) {
    environment.append(entry).push_back('\0');
  }
  return WriteSmallFile(File(trainer_dir::kEnvironment), environment);
}

std::string CommandRank::EnvironmentText() const {
  const absl::StatusOr<std::optional<std::string>> text =
      ReadSmallFile(File(trainer_dir::kEnvironment));
  return text.ok() ? text->value_or("") : "";
}

void CommandRank::Complete(const v1::JobSpec& spec, TrainerProcess::Command& start) const {
  start.program = {spec.command().begin(), spec.command().end()};
  start.working_directory =
      spec.has_code() ? setup_.paths.CodeDir(id_.job) : spec.working_directory();
  start.environment_file = File(trainer_dir::kEnvironment);
  start.log_segment_bytes = setup_.log_segment_bytes;
}

bool CommandRank::LookForLife(absl::Time now, const v1::JobSpec& spec, pid_t shim, bool was_asked) {
  if (!quiet_.has_value()) quiet_.emplace(absl::Seconds(spec.stall_warning_s()));
  if (now < quiet_->next_look()) return false;
  const absl::StatusOr<LogFiles::End> end = LogFiles(setup_.paths.LogDir(id_)).FindEnd();
  quiet_->Look(now, end.ok() ? end->offset : 0, ProcessorTimeBelow(shim), was_asked);
  return true;
}

void CommandRank::TellQuiet(const v1::JobSpec& spec, v1::Progress& progress) const {
  if (!quiet_.has_value()) return;
  const double seconds = absl::ToDoubleSeconds(quiet_->quiet());
  // A rank that was quiet for so long is in no phase, whatever was reported last.
  if (progress.phase() != v1::IDLE && seconds < spec.stall_warning_s()) return;
  progress.set_phase(v1::IDLE);
  progress.set_phase_s(seconds);
}

std::string CommandRank::File(const char* name) const {
  return absl::StrCat(setup_.paths.TrainerDir(id_), "/", name);
}

}  // namespace paceline
