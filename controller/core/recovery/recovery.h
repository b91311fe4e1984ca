// Decides what happens when a running job loses ranks, or must move them: purely from the job, the
// free slots, and the time.
//
//   a member failed (its end was reported), hangs (hang.h), or is on a node that does not answer
//   while others wait for it (unreachable.h)
//      ├─ bad input, crash loop, budget spent (failure_budget.h), nobody left with its state, or
//      │  another rank done with all steps ──▶ as without recovery: restart.h decides
//      ├─ a spare takes its seat, first one that is ready
//      ├─ else a new trainer at a free slot; on a node that the job avoids, only if it may not
//      │  shrink to the ranks that are left. With a sharded model both first, or only, in the
//      │  domain of the seat's replica (replica_seats.h)
//      ├─ else the seat stays empty, if the job may shrink so far (common/core/batch_rule.h); with
//      │  a sharded model a whole replica does, and its members fill the others (next_generation.h)
//      ╰─ else the others wait for a slot, up to give_up_s
//
// All members lost at one moment are replaced in one generation; another loss makes the next one.
// If a rank's end is not known (an unreachable node, a hang) and only shrinking could replace it,
// it first gets kReturn to end or to come back.
//
// If members wait with an error although none is lost, they rendezvous again as the next
// generation, after kEchoPatience: usually a loss is reported meanwhile.
//
// A rank's state is gone when all ranks of its group that had taken part in training are lost.
// Groups are those of the ladder's lowest level; without a ladder, all ranks are one group. With a
// sharded model each position has groups of its own, and if replicas have parameters of their own,
// it is also gone when each replica of a group has lost a rank (state_groups.h).
//
// When nothing is lost, planned generations make ranks leave nodes that the job has to leave, fill
// empty seats, once enough trainers stand by, let an elastic job give ranks back (elastic.h), and
// change the strategy when that was decided. They
// begin between two saves, and not within kPlannedPause of another change. One that does not come
// about within collective_timeout_s, or twice that if a mean comes first (leavers_mean.h), is
// called off by an unplanned one, in which the earlier holders keep their seats.
#ifndef CONTROLLER_CORE_RECOVERY_RECOVERY_H_
#define CONTROLLER_CORE_RECOVERY_RECOVERY_H_

#include <functional>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

inline constexpr absl::Duration kEchoPatience = absl::Milliseconds(200);
inline constexpr absl::Duration kReturn = absl::Seconds(2);
// How long after a hang was found its rank is ended even if its stacks are not saved.
inline constexpr absl::Duration kStacksPatience = absl::Seconds(2);
// The pause between two starts of spares after failures in a row: doubles from the first value up
// to the second.
inline constexpr absl::Duration kFirstSparePause = absl::Seconds(1);
inline constexpr absl::Duration kMaxSparePause = absl::Minutes(1);

// kRankAnywhere: on nodes that the job avoids, too, rather than nowhere. Of an elastic job
// (elastic.h), as far as its queue's quota allows: kGrowth, for a rank that it has not had yet or
// has lost for good, where no slot is kept for waiting jobs; kExtra, for one beyond
// JobRequest.ranks, the same, on nodes whose slots nobody waits for; kIdle, as kExtra, only to
// count them: what others have taken just now may be among them.
enum class SlotUse { kRank, kRankAnywhere, kSpare, kGrowth, kExtra, kIdle };

// Where slots for ranks of one replica of a sharded job belong.
struct ReplicaHome {
  // Of the replica's other ranks in the next generation: slots near them go first, and others are
  // not given if the job requires domains (placement.replica). Empty: it has no other ranks; then
  // all slots are near each other, or there are none.
  std::vector<NodeName> nodes = {};
  // What was found for other replicas, and is not given again.
  std::vector<Slot> taken = {};
};

// Free slots for `count` more trainers of the job, or as many as there are. `home`: they are for
// ranks of one replica, with which `use` is not kSpare; null: they are not.
using FindSlots = std::function<std::vector<Slot>(const Job& job, SlotUse use, int count,
                                                  const ReplicaHome* home)>;

// Does all of the above that is due. Call it after each event that concerns the job, and when
// job.recovery.wake has come.
JobChange AdvanceMembership(Job& job, const FindSlots& find_slots, Moment now);

// Prepares a job from the store: steady times do not survive a controller, and no node answers yet.
void RestoreRecovery(Job& job, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_RECOVERY_H_
