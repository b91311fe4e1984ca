// The lease of a node on its trainers' ranks, and what happens to the trainers when it has run out:
// the controller may then give the ranks to trainers on other nodes, and no rank may have two
// living trainers.
//
//                    Grant                        time passes
//   none or RUN OUT --------> HELD until Sent + length --------> RUN OUT
//                             ^  |
//                             +--+ HoldOn: nobody leads
//
// The lease counts from the time the answered report was sent, so it ends before the controller's
// own count does, which begins with the answer. The clock for `now` must go on while the machine is
// suspended. A lease granted in one session stays valid in the next until it runs out; before the
// first grant, no lease can run out. While nobody leads, no lease is granted, and nobody can give
// the ranks away: StandbyAnswers extends a lease that is held, but not one that has run out.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_CORE_LEASE_H_
#define WORKER_DAEMON_CORE_LEASE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"

namespace paceline {

class Lease {
 public:
  static constexpr size_t kMaxUnanswered = 256;  // Reports; older ones extend nothing.

  // Starts without a lease.
  Lease() = default;
  // Takes over the lease that an earlier daemon held.
  Lease(absl::Duration length, absl::Time end) : length_(length), end_(end) {}

  // Report numbers start over in each session.
  void BeginSession() { sent_.clear(); }
  // Sets the length from the controller's Welcome. Zero: leases are off, and a held lease is void.
  void SetLength(absl::Duration length);
  // Call before sending report `number`. Numbers grow within a session.
  void Sent(int64_t number, absl::Time now);
  // Call when the controller has answered report `number`. True when that extended the lease.
  bool Grant(int64_t number);
  // Call when it is known that any leader from now on began after `since` (standby_answers.h, same
  // clock). True when that extended the lease.
  bool HoldOn(absl::Time since, absl::Time now);

  absl::Duration length() const { return length_; }
  // End of the lease; InfiniteFuture when none was granted.
  absl::Time end() const { return end_; }
  bool HasRunOut(absl::Time now) const { return now >= end_; }

 private:
  absl::Duration length_;
  absl::Time end_ = absl::InfiniteFuture();
  std::deque<std::pair<int64_t, absl::Time>> sent_;  // Unanswered reports, oldest first.
};

// A trainer on the node, running or ended, and its part in its job.
struct HeldTrainer {
  TrainerId id;
  Generation generation;  // Of its membership, as are the next two.
  int rank = 0;           // -1: a spare.
  int world_size = 0;
  bool leased = false;         // TrainerPlan.leased.
  bool running = false;        // It has a process that can be killed.
  bool waiting = false;        // It has left its generation and waits for the next.
  absl::Time last_step;        // When its last step was seen; before the first, when it began.
  absl::Duration step_length;  // Length of that step.
};

struct FencedTrainer {
  TrainerId id;
  std::string why;  // For people.
};

// Returns the trainers that must be killed at `now`, once `lease` has run out; call it again for as
// long as that lasts. Of the leased trainers, these are
//   - members of a job with all ranks on this node, and its spares: nobody but the
//     controller could tell that they are alive;
//   - members of other jobs that make no steps: they wait, or have made none for the length of a
//     lease (and at least three of their steps). Members that make steps have peers on other nodes
//     that train with them, so nobody has replaced them.
std::vector<FencedTrainer> ToFence(const std::vector<HeldTrainer>& trainers, const Lease& lease,
                                   absl::Time now);

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_LEASE_H_
