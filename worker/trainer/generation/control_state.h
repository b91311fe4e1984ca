// What the trainer has told its daemon and what it was told: where the training thread and the
// control's thread meet. Thread-safe.
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
  // `directory` gets the last words.
  ControlState(std::string directory, const v1::TrainerId& id);
  ~ControlState();
  ControlState(const ControlState&) = delete;
  ControlState& operator=(const ControlState&) = delete;

  // Becomes readable when the control's thread has something to do; it calls TakeWake then.
  int wake_fd() const { return wake_fd_; }
  void Wake();
  void TakeWake();

  // The status. `change` is called with it at once; it is to be sent afterwards.
  template <typename F>
  void Change(F change) {
    {
      absl::MutexLock lock(&mutex_);
      change(&status_);
      unsent_ = true;
    }
    Wake();
  }
  // The status if it was not taken since its last change.
  std::optional<std::string> TakeUnsent();
  void MarkUnsent();
  bool unsent() const;
  v1::TrainerState state() const;
  // Puts the status into the directory.
  void WriteLastWords();

  // What the daemon sent. A part that is missing stays as it was; the configuration is constant.
  void SetCommand(v1::TrainerCommand command);
  absl::StatusOr<TrainerConfig> WaitForConfig();
  std::optional<ProfileRequest> profile_request() const;

  // Whether SIGTERM ends the training; else the work is to be saved first.
  bool ends_when_asked() const;

  // As in Control; CallListeners, on the control's thread, makes the calls that are due.
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
  // To this listener, serialized.
  std::optional<std::string> told_membership_ ABSL_GUARDED_BY(listener_mutex_);
  std::function<void(const TrainingPlan&)> on_plan_ ABSL_GUARDED_BY(listener_mutex_);
  int64_t told_epoch_ ABSL_GUARDED_BY(listener_mutex_) = 0;  // To this listener.
  std::function<void(const CheckpointPlan&)> on_checkpoints_ ABSL_GUARDED_BY(listener_mutex_);
  // To this listener, serialized.
  std::optional<std::string> told_checkpoints_ ABSL_GUARDED_BY(listener_mutex_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_CONTROL_STATE_H_
