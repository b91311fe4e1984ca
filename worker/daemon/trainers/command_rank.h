// What a rank with a program of the job's own has, and a trainer of Paceline's has not: a port that
// is reserved before the program starts, an environment that tells it to the program, and signs of
// life where the program tells nothing.
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

  // Reserves a port and returns its number, which a later daemon reserves again.
  // FailedPrecondition: this node takes no commands.
  absl::StatusOr<int> ReservePort();
  void FreePort() { port_.reset(); }

  // Writes the environment of the program of `plan`. Requires: the plan has a store address.
  // `watched`: its steps are measured, in the rank's ring.
  absl::Status WriteEnvironment(const v1::TrainerPlan& plan, bool watched) const;
  // That, "KEY=value" and a NUL each; empty: there is none yet.
  std::string EnvironmentText() const;
  // Adds to `start`, which is that of a trainer, what the program needs.
  void Complete(const v1::JobSpec& spec, TrainerProcess::Command& start) const;

  // Looks for output and processor time of what runs below `shim`, if it is time to; whether it
  // was. `was_asked`: processor time since the last look may have been used for an answer to us.
  bool LookForLife(absl::Time now, const v1::JobSpec& spec, pid_t shim, bool was_asked);

  // Tells in the progress of a rank that has made no step how long it has been quiet.
  void TellQuiet(const v1::JobSpec& spec, v1::Progress& progress) const;

 private:
  std::string File(const char* name) const;

  // Constant.
  const TrainerSetup& setup_;
  const TrainerId id_;

  // Owned by the loop.
  std::optional<ReservedPort> port_;
  std::optional<QuietTime> quiet_;  // From the first look on.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_COMMAND_RANK_H_
