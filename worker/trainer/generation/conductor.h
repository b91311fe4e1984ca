// Leads a trainer through its job's generations: gets assignments from the daemon, ends a replaced
// generation at once, and reports to the daemon.
//
// The control's thread delivers assignments. When one replaces the generation that the training
// thread trains in or meets, that generation's collectives are ended (comm/connections.h), so that
// the training thread gets an error within milliseconds, wherever it waits for a peer.
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
#include "worker/trainer/core/copy_keeper.h"
#include "worker/trainer/core/membership.h"
#include "worker/trainer/generation/control.h"

namespace paceline {

class Conductor {
 public:
  // `end_collectives` makes all collectives of this process throw; called on any thread. `control`
  // must outlive this.
  Conductor(Control& control, const RecoveryConfig& recovery,
            std::function<void()> end_collectives);
  ~Conductor();
  Conductor(const Conductor&) = delete;
  Conductor& operator=(const Conductor&) = delete;

  // Only the training thread calls this and the functions below. From now on the trainer can meet.
  void SetLoaded(int64_t step);

  // Waits for a generation to meet; that rendezvous begins now. Returns nothing after a stop
  // request. Unavailable: it has waited too long, or must not wait.
  absl::StatusOr<std::optional<Assignment>> WaitForRendezvous();

  // All members have met.
  void SetRendezvousDone(int64_t step);
  // The present generation is over. First ends its remaining collectives.
  void EndCollectives();
  // `step` is -1 if the trainer has no state, or has lost the one that it had.
  void SetFailed(const std::string& error, int64_t step);
  void SetLeft(int64_t step);

  // Time since the present generation's collectives were ended.
  absl::Duration since_end() const;

  // Whether the present generation was replaced and must be left at once. Any thread.
  bool is_over() const { return is_over_.load(std::memory_order_acquire); }

  // Whether an assignment to a later generation has arrived. Any thread.
  bool HasSuccessor() const;

  // The next planned step while the present generation trains: nothing, connect, or agree. Costs
  // one atomic read while nothing is planned.
  MembershipState::Step Planned() const;
  Assignment newest() const;
  void SetConnected(int64_t generation, bool connected);

  // How far this rank is with its copies. Any thread.
  void SetCopies(const CopyReport& report);

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
  CopyReport copies_ ABSL_GUARDED_BY(mu_);
  absl::Time ended_at_ ABSL_GUARDED_BY(mu_);  // When collectives were ended; monotonic.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_CONDUCTOR_H_
