// The trainer's connection to its daemon, on a thread of its own.
//
// The thread keeps the connection (redialling with growing delays while the daemon is away), sends
// the status on each change and each new connection, receives commands, rotates the log, and
// handles SIGTERM:
//   - before SetRunning there is nothing to finish: the process exits with 0 at once. A guest's
//     former handler gets the signal instead, so that the process ends as it would have without us;
//   - later, stop_requested() becomes true; the training thread checks it between two steps;
//   - but if the job has a checkpoint directory and the daemon has not confirmed that it ends the
//     process, the status reports the signal and training goes on until the daemon confirms: the
//     controller has the work saved first.
// When no daemon has been there for `orphan_timeout`, the thread ends the process.
//
// On exit the last status is written to <directory>/status, whether or not a daemon listens.
//
// In a child that a guest has forked, Finish and the destructor do nothing; call no other method.
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
    std::string directory;  // The trainer's, named <job>.<generation>.<rank>.
    absl::Duration orphan_timeout = absl::Minutes(10);
    int64_t log_segment_bytes = 8 * 1024 * 1024;
    // The process is somebody else's: threads exist already, standard output and error stay as they
    // are, and SIGTERM is handled (StopSignal::Handle) until Finish.
    bool guest = false;
  };

  // Redirects standard output and error to the log and starts the thread. Unless it is for a guest,
  // call it before any other thread exists: it blocks SIGTERM, which later threads inherit.
  // InvalidArgument when the directory's name is not a trainer's or the socket's path is too long;
  // otherwise errors of the log and of StopSignal.
  static absl::StatusOr<std::unique_ptr<Control>> Start(const Options& options);

  virtual ~Control() = default;

  // Blocks until the daemon has sent the configuration. InvalidArgument when it is impossible.
  virtual absl::StatusOr<TrainerConfig> WaitForConfig() = 0;

  // Model and data are loaded and a store listens on `store_port`. `no_slipstream` says why
  // Slipstream cannot train the model; empty: it can.
  virtual void SetReady(int store_port, const std::string& no_slipstream) = 0;

  // Calls `on_assignment` on the control's thread with the newest assignment of this trainer, at
  // once after each change. If the daemon sends no membership, takes it from the configuration and
  // the store's address. Otherwise like SetPlanListener.
  virtual void SetMembershipListener(std::function<void(const Assignment&)> on_assignment) = 0;

  // Calls `on_plan` on the control's thread with the present plan and each new one. Null: stops; no
  // call is under way when this returns. `on_plan` must not call this.
  virtual void SetPlanListener(std::function<void(const TrainingPlan&)> on_plan) = 0;

  // The newest profile request. Costs one atomic read while there is none.
  virtual std::optional<ProfileRequest> profile_request() const = 0;

  // Calls `on_plan` on the control's thread with the present wishes about checkpoints and after
  // each change. Otherwise like SetPlanListener.
  virtual void SetCheckpointListener(std::function<void(const CheckpointPlan&)> on_plan) = 0;

  // The first rendezvous of all ranks is done.
  virtual void SetRunning() = 0;
  virtual void SetMembership(const MembershipStatus& status) = 0;

  virtual void SetEvaluation(const EvaluationResult& result) = 0;
  // All ranks have gone back to this step: takes back an evaluation of later ones.
  virtual void DropEvaluationAfter(int64_t step) = 0;
  virtual void SetPlanStatus(const PlanStatus& status) = 0;
  virtual void SetFigures(const RankFigures& figures) = 0;
  virtual void SetProfile(const ProfileResult& result) = 0;
  // Replaces the earlier status of this step (or, with step 0, of this order) and generation.
  virtual void SetSave(const SaveStatus& status) = 0;
  virtual void SetCheckpointFigures(const CheckpointFigures& figures) = 0;
  // Replaces what was reported of this name. Of more than 32 names the others are left out.
  virtual void SetArtifact(const Artifact& artifact) = 0;

  bool stop_requested() const { return stop_requested_.load(std::memory_order_relaxed); }

  // Writes and sends the last words and ends the thread. Returns the process's exit code. The code
  // of `status` gives the kind of failure: InvalidArgument and DataLoss: bad input;
  // FailedPrecondition: the checkpoint to start from is unusable; ResourceExhausted: out of memory;
  // Unavailable: a failed collective (no failure after a stop request: others may have stopped
  // first); any other: an error of the training.
  virtual int Finish(const absl::Status& status) = 0;

 protected:
  std::atomic<bool> stop_requested_{false};
};

// The plan of an assignment with a store address. InvalidArgument when it has none.
absl::StatusOr<TrainingPlan> PlanOf(const Assignment& assignment);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_CONTROL_H_
