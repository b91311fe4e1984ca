// What becomes of a running job when ranks are lost, or shall move: a pure decision from the job,
// the places that are free, and the time.
//
//   a member failed (its end was reported), hangs (hang.h), or is on a node that does not answer
//   while others wait for it (silence.h)
//      ├─ bad input, crash loop, the budget is spent (failure_budget.h), nobody is left with its
//      │  state, or another rank is done with all steps ──▶ as without recovery: restart.h decides
//      ├─ its seat is taken by a spare, one that is ready first
//      ├─ else by a new trainer at a free place; on a node that the job avoids, only if it may not
//      │  shrink to those that are left
//      ├─ else it stays empty, if the job may shrink so far (common/core/batch_rule.h)
//      ╰─ else the others wait for a place, up to give_up_s
//
// All members that are lost at one moment are replaced in one generation; another loss makes the
// next one. A rank that was lost without its end being known (a silent node, a hang), and could be
// replaced by shrinking only, gets kReturn to end or to come back first.
//
// Members that wait with an error although none is lost rendezvous again, as the next generation,
// after kEchoPatience: mostly a loss is reported meanwhile.
//
// Nobody has a rank's state any more when all ranks of its group of the lowest level of the ladder
// are lost that had taken part in training; without a ladder, all ranks are one group.
//
// When nothing is lost, ranks move away from nodes that the job has to leave, and empty seats are
// filled, as soon as enough trainers stand by, and all go on by another strategy when that is
// decided: planned generations, between two saves, and not within kPlannedPause of another change.
// One that does not come about in collective_timeout_s is called off, by an unplanned one in which
// the earlier holders of the seats keep them.
#ifndef CONTROLLER_CORE_RECOVERY_RECOVERY_H_
#define CONTROLLER_CORE_RECOVERY_RECOVERY_H_

#include <functional>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

inline constexpr absl::Duration kEchoPatience = absl::Milliseconds(200);
inline constexpr absl::Duration kReturn = absl::Seconds(2);
// A rank that hangs is ended after so long, even if its stacks were not saved.
inline constexpr absl::Duration kStacksPatience = absl::Seconds(2);
// Between two starts of spares, after so many failed in a row: doubles from the first to the
// second.
inline constexpr absl::Duration kFirstSparePause = absl::Seconds(1);
inline constexpr absl::Duration kMaxSparePause = absl::Minutes(1);

// kRankAnywhere: also on nodes that the job avoids, rather than nowhere.
enum class PlaceUse { kRank, kRankAnywhere, kSpare };
// Free places for so many more trainers of the job, as many as there are.
using FindPlaces = std::function<std::vector<Place>(const Job& job, PlaceUse use, int count)>;

// Goes on with everything of the above that is due. To be called after each event that concerns the
// job, and when job.recovery.wake has come.
JobChange AdvanceMembership(Job& job, const FindPlaces& find_places, Moment now);

// A job out of the store: steady times do not survive a controller, and no node answers yet.
void RestoreRecovery(Job& job, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_RECOVERY_H_
