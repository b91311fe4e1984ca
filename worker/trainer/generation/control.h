// The trainer's side of the socket to its daemon, on a thread of its own.
//
// The thread keeps the connection (dialling again with a growing delay when the daemon is
// away), sends the status on each change and each new connection, receives the commands,
// turns over the log segments, and takes SIGTERM:
//   - before SetRunning there is nothing to finish: the process exits with 0 at once;
//   - later stop_requested() becomes true, for the training thread to see between two steps;
//   - but if the job has a checkpoint directory and the daemon has not said that it ends the
//     process, the status tells that somebody asked for its end, and training goes on until the
//     daemon says so: the controller has the work saved first.
// When no daemon has been there for `orphan_timeout` the thread ends the process.
//
// How the process ended is left behind in <directory>/status, whether or not a daemon listens.
//
// Thread-safe.
#ifndef WORKER_TRAINER_GENERATION_CONTROL_H_
#define WORKER_TRAINER_GENERATION_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/config.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

class Control {
 public:
  struct Options {
    std::string socket;     // Path of the daemon's socket.
    std::string directory;  // The trainer's; its name is <job>.<generation>.<rank>.
    absl::Duration orphan_timeout = absl::Minutes(10);
    int64_t log_segment_bytes = 8 * 1024 * 1024;
  };

  // Directs standard output and error into the log and starts the thread. Call it before
  // any other thread exists: it blocks SIGTERM for those that follow. InvalidArgument when
  // the directory's name is not a trainer's or the socket's path too long for one; else an
  // error of the log.
  static absl::StatusOr<std::unique_ptr<Control>> Start(const Options& options);

  virtual ~Control() = default;

  // Blocks until the daemon has sent it. InvalidArgument when it is impossible.
  virtual absl::StatusOr<TrainerConfig> WaitForConfig() = 0;

  // Model and data are loaded and a store listens on `store_port`. `no_slipstream`: why Slipstream
  // cannot train the model; empty: it can.
  virtual void SetReady(int store_port, const std::string& no_slipstream) = 0;

  // From now on `on_assignment` is called with what this trainer is in the newest generation, on
  // the control's thread, at once after each change. When the daemon sends no membership: what the
  // configuration says, with the store's address. Else as SetPlanListener.
  virtual void SetMembershipListener(std::function<void(const Assignment&)> on_assignment) = 0;

  // From now on `on_plan` is called with each new plan of the daemon's, the present one
  // included, on the control's thread. Null: no longer; no call is under way afterwards. Not to
  // be called by `on_plan`.
  virtual void SetPlanListener(std::function<void(const TrainingPlan&)> on_plan) = 0;

  // The newest profile that was asked for. Costs one atomic read while there is none.
  virtual std::optional<ProfileRequest> profile_request() const = 0;

  // From now on `on_plan` is called with what is wanted of checkpoints (the present state
  // included), on the control's thread, after each change. Else as SetPlanListener.
  virtual void SetCheckpointListener(std::function<void(const CheckpointPlan&)> on_plan) = 0;

  // All ranks have met for the first time.
  virtual void SetRunning() = 0;
  virtual void SetMembership(const MembershipStatus& status) = 0;

  virtual void SetEvaluation(const EvaluationResult& result) = 0;
  virtual void SetPlanStatus(const PlanStatus& status) = 0;
  virtual void SetFigures(const RankFigures& figures) = 0;
  virtual void SetProfile(const ProfileResult& result) = 0;
  // Replaces what was told of this step (or, with step 0, of this order) and generation.
  virtual void SetSave(const SaveStatus& status) = 0;
  virtual void SetCheckpointFigures(const CheckpointFigures& figures) = 0;

  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }

  // Writes and sends the last words and ends the thread. Returns the process's exit code.
  // The code of `status` tells the kind of the failure: InvalidArgument and DataLoss are bad input,
  // FailedPrecondition a checkpoint to start from that cannot be used, ResourceExhausted lack of
  // memory, Unavailable a failed collective (no failure after a request to stop: others may have
  // stopped first), any other an error of the training.
  virtual int Finish(const absl::Status& status) = 0;

 protected:
  std::atomic<bool> stop_requested_{false};
};

// The plan of an assignment with a store's address. InvalidArgument when none came with it.
absl::StatusOr<TrainingPlan> PlanOf(const Assignment& assignment);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_CONTROL_H_
