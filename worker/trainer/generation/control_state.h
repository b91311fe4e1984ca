// What the trainer has reported its daemon and what the daemon told it, shared by the training
// thread and the control's thread. Thread-safe.
#ifndef WORKER_TRAINER_GENERATION_CONTROL_STATE_H_
#define WORKER_TRAINER_GENERATION_CONTROL_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "proto/trainer.pb.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/control.h"

namespace paceline {

class ControlState {
 public:
  // `directory` is where the last words go.
  ControlState(std::string directory, const v1::TrainerId& id);
  ~ControlState();
  ControlState(const ControlState&) = delete;
  ControlState& operator=(const ControlState&) = delete;

  // Readable when the control's thread has work; the thread then calls TakeWake.
  int wake_fd() const { return wake_fd_; }
  void Wake();
  void TakeWake();

  // Changes the status with `change`, which is called at once, and marks it unsent.
  template <typename F>
  void Change(F change) {
    {
      absl::MutexLock lock(&mutex_);
      change(&status_);
      unsent_ = true;
    }
    Wake();
  }
  // The status, if it has changed since it was last taken.
  std::optional<std::string> TakeUnsent();
  void MarkUnsent();
  bool unsent() const;
  v1::TrainerState state() const;
  // Writes the status into the directory.
  void WriteLastWords();

  // Takes a message of the daemon. Missing parts keep their values; the configuration is constant.
  void SetCommand(v1::TrainerCommand command);
  absl::StatusOr<TrainerConfig> WaitForConfig();
  std::optional<ProfileRequest> profile_request() const;

  // Whether SIGTERM may end the training; otherwise the work must be saved first.
  bool ends_when_asked() const;

  // See Control. CallListeners, on the control's thread, makes the due calls.
  void SetMembershipListener(std::function<void(const Assignment&)> on_assignment);
  void SetPlanListener(std::function<void(const TrainingPlan&)> on_plan);
  void SetCheckpointListener(std::function<void(const CheckpointPlan&)> on_plan);
  void CallListeners();

 private:
  const std::string directory_;
  const int wake_fd_;

  mutable absl::Mutex mutex_;
  v1::TrainerStatus status_ ABSL_GUARDED_BY(mutex_);
  v1::TrainerCommand command_ ABSL_GUARDED_BY(mutex_);
  bool unsent_ ABSL_GUARDED_BY(mutex_) = true;

  std::atomic<bool> has_profile_{false};

  void CallMembershipListener() ABSL_EXCLUSIVE_LOCKS_REQUIRED(listener_mutex_);
  void CallPlanListener() ABSL_EXCLUSIVE_LOCKS_REQUIRED(listener_mutex_);
  void CallCheckpointListener() ABSL_EXCLUSIVE_LOCKS_REQUIRED(listener_mutex_);

  absl::Mutex listener_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // Held during a call.
  std::function<void(const Assignment&)> on_assignment_ ABSL_GUARDED_BY(listener_mutex_);
  // The last one given to this listener, serialized.
  std::optional<std::string> reported_membership_ ABSL_GUARDED_BY(listener_mutex_);
  std::function<void(const TrainingPlan&)> on_plan_ ABSL_GUARDED_BY(listener_mutex_);
  int64_t reported_version_ ABSL_GUARDED_BY(listener_mutex_) = 0;  // Given to this listener.
  std::function<void(const CheckpointPlan&)> on_checkpoints_ ABSL_GUARDED_BY(listener_mutex_);
  // The last one given to this listener, serialized.
  std::optional<std::string> reported_checkpoints_ ABSL_GUARDED_BY(listener_mutex_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_CONTROL_STATE_H_
