// Jobs whose number of ranks follows the room in the cluster (spec.recovery.max_ranks).
//
//   min_ranks          ranks                  max_ranks
//       ├────────────────┼───────────────────────┤
//        starts with these   extra ranks: in slots that nobody waits for
//
// An elastic job starts with as many ranks as there is room for, and grows to `ranks` as slots
// become free, like one that has lost ranks. Beyond that it grows only where it is likely to pay,
// and it gives these extra ranks back, by a planned change, as soon as others wait for their slots
// (schedule/extra_ranks.h). Ranks up to `ranks` are never taken from it so.
//
// When a growth pays: it holds up n ranks for a pause, and giving back does so again; g extra ranks
// make up for both in 2 * pause * n / g. How long slots stay idle is not known, so the job first
// waits until they have been idle for just that long. Whatever follows, it loses at most twice what
// it would have lost with the best decision in hindsight (ski rental: Karlin, Manasse, Rudolph,
// Sleator, "Competitive snoopy caching", Algorithmica 3, 1988); and it does not flap, since each
// growth has to wait anew.
#ifndef CONTROLLER_CORE_RECOVERY_ELASTIC_H_
#define CONTROLLER_CORE_RECOVERY_ELASTIC_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/job.h"
#include "controller/core/recovery/recovery.h"

namespace paceline {

// The pause of a change, as long as the job has made no planned one; and the bounds of one that it
// has made. Most of it the ranks train, so this is more than they lose.
inline constexpr absl::Duration kAssumedPause = absl::Seconds(10);
inline constexpr absl::Duration kShortestPause = absl::Seconds(1);
inline constexpr absl::Duration kLongestPause = absl::Minutes(5);
// Slots are idle for at least so long before a job grows into them.
inline constexpr absl::Duration kLeastPatience = absl::Seconds(10);
// How often slots for extra ranks are looked for.
inline constexpr absl::Duration kGrowthInterval = absl::Seconds(5);

inline bool IsElastic(const JobRequest& request) { return request.recovery.max_ranks > 0; }

// The most ranks that the job may have, and the fewest that it starts with.
int MostRanks(const JobRequest& request);
int LeastToStart(const JobRequest& request);

// The greatest possible number of ranks up to `available` with which the job could train; 0: none.
int PossibleRanksOf(const JobRequest& request, int available);

// The ranks that the job is to have now: JobRequest.ranks, or more while it has or gets more.
int WantedRanks(const Job& job);

// The seats that are to be filled so that the job has as many: the lowest empty ones, ascending.
std::vector<int> SeatsToFill(const Job& job);

// How many ranks the job goes on with when so many trainers, its ranks among them, could be members
// at once, beside `others` that stand by. Its spares take no extra seats. Those that a growth is
// for become members together, as each change holds up the others; unless one of them has failed.
int NextRanks(const Job& job, int available, int others);

// Slots that the job lacks and could use at once: for lost ranks, for those up to JobRequest.ranks
// and for those that have to leave a node, as far as no trainer is there for them.
int MissingRanks(const Job& job);

// So many of these slots, at most MissingRanks, are of use to the job: with each number of ranks a
// step has to be divisible, and a job that has lost ranks may have to wait for all of them.
int UsableSlots(const Job& job, int slots);

// Whether the quota of its queue limits the slots that it lacks (SlotUse::kGrowth).
bool GrowsWithinQuota(const Job& job);

// The numbers of ranks to which the job can go down so that it keeps JobRequest.ranks; descending.
// Empty: it has no extra ranks.
std::vector<int> StepsDown(const Job& job);

// How long slots for so many more ranks have to be idle before the job grows into them.
absl::Duration GrowthPatience(const Job& job, int more);

// Decides, if it is time, whether the job is to grow beyond JobRequest.ranks. Returns whether that
// has changed what it wants.
bool ConsiderGrowth(Job& job, const FindSlots& find_slots, Moment now);

// So many of the slots for which a growth was decided are there no more.
void GrowLess(Job& job, int missing);

// It is to grow no further than it has; trainers that were started for that end.
JobChange StopGrowth(Job& job, Moment now);

// Extra ranks beyond `ranks` are to be given back to `beneficiary`; 0: none are, any more.
JobChange OrderGiveBack(Job& job, int ranks, const std::string& beneficiary, Moment now);

// Whether the job has ranks that are to be given back.
bool GivesBack(const Job& job);

// Begins the planned generation without the ranks that are to be given back. Returns whether there
// are any. Requires: nothing is in the way of a planned change.
bool BeginGiveBack(Job& job, Moment now);

// Forgets where the seats were that the job has given back. Call it when all members train in a
// planned generation: until then those who leave may take them again.
void ForgetGivenBack(Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_ELASTIC_H_
