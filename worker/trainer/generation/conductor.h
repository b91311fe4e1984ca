// Leads a trainer through the generations of its job: hears from the daemon what it is, ends at
// once what has been replaced, and tells the daemon where it stands.
//
// The control's thread brings the assignments. When one replaces the generation that the training
// thread trains in or meets, its collectives are ended from outside (comm/connections.h), so that
// the training thread, wherever it waits for a peer, gets an error within milliseconds.
//
// Thread-safe; one thread trains.
#ifndef WORKER_TRAINER_GENERATION_CONDUCTOR_H_
#define WORKER_TRAINER_GENERATION_CONDUCTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/membership.h"
#include "worker/trainer/generation/control.h"

namespace paceline {

class Conductor {
 public:
  // `end_collectives` lets all collectives of this process throw; called on any thread. `control`
  // outlives this.
  Conductor(Control& control, const RecoveryConfig& recovery,
            std::function<void()> end_collectives);
  ~Conductor();
  Conductor(const Conductor&) = delete;
  Conductor& operator=(const Conductor&) = delete;

  // The training thread, as all below. It may be told to meet.
  void SetLoaded(int64_t step);

  // Waits until there is a generation to meet, which begins with this. Nothing: a stop was
  // requested. Unavailable: it has waited too long, or must not wait.
  absl::StatusOr<std::optional<Assignment>> WaitToMeet();

  // All have met.
  void SetMet(int64_t step);
  // The present generation is over. Ends what is left of its collectives first.
  void EndCollectives();
  void SetFailed(const std::string& error, int64_t step);
  void SetLeft(int64_t step);

  // How long ago the collectives of the present generation were ended.
  absl::Duration since_end() const;

  // The present generation has been replaced, and must be left at once. Any thread.
  bool is_over() const { return is_over_.load(std::memory_order_acquire); }

  // An assignment to a later generation than the present one is there. Any thread.
  bool HasSuccessor() const;

  // The planned generation that shall follow, while the present one trains: nothing; to be
  // connected; to be agreed on. Costs one atomic read while nothing is planned.
  MembershipState::Step Planned() const;
  Assignment newest() const;
  void SetConnected(int64_t generation, bool connected);

 private:
  void OnAssignment(const Assignment& assignment);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Control& control_;
  const std::function<void()> end_collectives_;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_planned_{false};

  mutable absl::Mutex mu_;
  MembershipState state_ ABSL_GUARDED_BY(mu_);
  Assignment newest_ ABSL_GUARDED_BY(mu_);
  int64_t step_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time ended_at_ ABSL_GUARDED_BY(mu_);  // Of the collectives; monotonic.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_CONDUCTOR_H_
