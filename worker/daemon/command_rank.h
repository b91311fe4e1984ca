// What a rank with a program of the job's own has, and a trainer of Paceline's has not: a port that
// is reserved before the program starts, and an environment that tells it to the program.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_COMMAND_RANK_H_
#define WORKER_DAEMON_COMMAND_RANK_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/core/ids.h"
#include "proto/worker.pb.h"
#include "worker/daemon/reserved_port.h"
#include "worker/daemon/trainer_process.h"
#include "worker/daemon/trainer_setup.h"

namespace paceline {

class CommandRank {
 public:
  // `setup` outlives this object.
  CommandRank(const TrainerSetup& setup, TrainerId id);

  // Reserves a port and returns its number, which a later daemon reserves again.
  // FailedPrecondition: this node takes no commands.
  absl::StatusOr<int> ReservePort();
  void FreePort() { port_.reset(); }

  // Adds to `start`, which is that of a trainer, what the program of `plan` needs. Requires: the
  // plan has a store address. `watched`: its steps are measured, in the rank's ring.
  absl::Status Complete(const v1::TrainerPlan& plan, bool watched,
                        TrainerProcess::Command& start) const;

 private:
  std::string File(const char* name) const;

  // Constant.
  const TrainerSetup& setup_;
  const TrainerId id_;

  // Owned by the loop.
  std::optional<ReservedPort> port_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_COMMAND_RANK_H_
