// The lease that a node has on the ranks of its trainers, and what becomes of them when it has run
// out: from then on the controller may give them to other nodes' trainers, and a rank must not have
// two that live.
//
//                    Grant                        time passes
//   none or RUN OUT --------> HELD until Sent + length --------> RUN OUT
//                             ^  |
//                             +--+ HoldOn: nobody leads
//
// It counts from when the report that the controller answered was sent, hence ends before the
// controller's count does, which begins with the answer. `now` is to go on while the machine is
// suspended. A lease that was granted in one session holds in the next, until it runs out; before
// the first is granted, none can run out. While nobody leads, none is granted, and nobody can give
// the ranks away: one that is held is held on by StandbyAnswers, one that has run out is not.
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
  static constexpr size_t kMaxUnanswered = 256;  // Reports; older ones extend nothing any more.

  // None is held.
  Lease() = default;
  // The one that an earlier daemon held.
  Lease(absl::Duration length, absl::Time end) : length_(length), end_(end) {}

  // The numbers of reports start over.
  void BeginSession() { sent_.clear(); }
  // The controller's Welcome. Zero: leases are off, and the one that was held is void.
  void SetLength(absl::Duration length);
  // A report is about to be sent. The numbers of a session grow.
  void Sent(int64_t number, absl::Time now);
  // The controller has answered it. True when the lease is held for longer now.
  bool Grant(int64_t number);
  // Whoever leads from now on has begun to later than `since` (standby_answers.h), on the same
  // clock. True when the lease is held for longer now.
  bool HoldOn(absl::Time since, absl::Time now);

  absl::Duration length() const { return length_; }
  // InfiniteFuture: none was granted.
  absl::Time end() const { return end_; }
  bool HasRunOut(absl::Time now) const { return now >= end_; }

 private:
  absl::Duration length_;
  absl::Time end_ = absl::InfiniteFuture();
  std::deque<std::pair<int64_t, absl::Time>> sent_;  // Unanswered, oldest first.
};

// A trainer on the node, running or ended, and what it is to its job.
struct HeldTrainer {
  TrainerId id;
  Generation generation;  // Of its membership; so below.
  int rank = 0;           // -1: a spare.
  int world_size = 0;
  bool leased = false;         // TrainerPlan.leased.
  bool running = false;        // It can be ended.
  bool waiting = false;        // It has left its generation and waits for the next.
  absl::Time last_step;        // When it was last seen to end one; before the first: when it began.
  absl::Duration step_length;  // Of that step.
};

struct FencedTrainer {
  TrainerId id;
  std::string why;  // For people.
};

// Those that have to be killed at `now`, when `lease` has run out; to be asked again as long as it
// has. Of the trainers that are leased, these are
//   - the members of a job all of whose ranks are on this node, and its spares: nobody but the
//     controller could tell that they live;
//   - the members of other jobs that make no step: they wait, or made none for as long as a lease
//     lasts (and three of their steps). Those that make steps have peers on other nodes that train
//     with them, so nobody has taken their place.
std::vector<FencedTrainer> ToFence(const std::vector<HeldTrainer>& trainers, const Lease& lease,
                                   absl::Time now);

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_LEASE_H_
