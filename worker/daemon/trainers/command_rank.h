// The parts of a rank that runs the job's own program (a command) and that Paceline's own trainers
// do not have: the program's start and environment, and, unless it is a session, a port reserved
// before it starts and signs of life, as it reports nothing.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_TRAINERS_COMMAND_RANK_H_
#define WORKER_DAEMON_TRAINERS_COMMAND_RANK_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "proto/status.pb.h"
#include "proto/worker.pb.h"
#include "worker/daemon/core/quiet_time.h"
#include "worker/daemon/trainers/reserved_port.h"
#include "worker/daemon/trainers/trainer_process.h"
#include "worker/daemon/trainers/trainer_setup.h"

namespace paceline {

class CommandRank {
 public:
  // `setup` outlives this object.
  CommandRank(const TrainerSetup& setup, TrainerId id);

  // FailedPrecondition: this node accepts no commands, nor other native code of users.
  absl::Status CheckAccepted() const;

  // Reserves a port and returns its number. That of rank 0, which the others are told, later
  // daemons reserve again.
  absl::StatusOr<int> ReservePort();
  void FreePort() { port_.reset(); }

  // Writes the environment of the plan's program. Requires: the plan has a store address, or is a
  // session's. `measured`: the program's steps are measured in the rank's ring.
  absl::Status WriteEnvironment(const v1::TrainerPlan& plan, bool measured) const;
  // Returns that environment, each "KEY=value" followed by a NUL; empty before it was written.
  std::string EnvironmentText() const;
  // Adds what a command needs to `start`, the start command of a trainer.
  void Complete(const v1::JobSpec& spec, TrainerProcess::Command& start) const;

  // Samples output and processor time below `shim` if that is due; returns whether it was.
  // `was_asked`: since the last sample, processor time may have gone into an answer to us.
  bool LookForLife(absl::Time now, const v1::JobSpec& spec, pid_t shim, bool was_asked);

  // Reports in `progress` how long a rank that has made no step has been quiet.
  void TellQuiet(const v1::JobSpec& spec, v1::Progress& progress) const;

 private:
  std::string File(const char* name) const;

  // Constant.
  const TrainerSetup& setup_;
  const TrainerId id_;

  // Owned by the loop.
  std::optional<ReservedPort> port_;
  std::optional<QuietTime> quiet_;  // Set at the first look.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_COMMAND_RANK_H_
