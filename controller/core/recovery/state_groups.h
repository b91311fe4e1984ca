// Who can give a rank the state that it has lost: the other ranks of its group (recovery.h).
//
// Groups are those of the ladder's lowest level. If the model is sharded, that level has groups of
// replicas, and each position in the replicas of one makes a group: its ranks have the same part of
// the model. If replicas have parameters of their own, parts of several make no state: then one of
// the group must have all of its parts (worker/trainer/core/sharded_rendezvous.h).
#ifndef CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_
#define CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/core/ladder.h"
#include "controller/core/job/job.h"

namespace paceline {

// By seat: the home where the newest start placed it.
std::vector<RankHome> HomesOf(const Job& job);

// By seat: the number of its group.
std::vector<int> GroupsOfSeats(const Job& job);

// Whether the model is sharded, and its replicas have parameters of their own between the means of
// them. (Those that share gradients begin equal, but not after the ranks have changed.)
bool ReplicasDiffer(const Job& job);

// The seat whose state the trainer has; -1: it has none. With a sharded model, one that has just
// come from another position, or begun to stand by, has that of its former seat, as long as nobody
// has trained on without it.
int SeatOfState(const Job& job, const RankState& trainer);
// The group of that seat; -1: none. `groups`: GroupsOfSeats.
int GroupOfState(const Job& job, const RankState& trainer, const std::vector<int>& groups);
// Whether it has the state that belongs to its seat. Requires: it has a seat.
bool HasStateOfSeat(const Job& job, const RankState& trainer, const std::vector<int>& groups);

// Why the job cannot go on without its lost members: all ranks of a group with the same state are
// lost, or, if replicas differ, some rank of each replica of a group. Empty: it can.
std::string WhyStateIsLost(const Job& job);

// Of the members to be replaced (indices in Job.ranks), those that can be in one generation: in
// each group somebody has to stay who gives the state to the others, and if replicas differ, the
// whole of one. One that is alone in its group hands its state over instead.
std::vector<size_t> WithoutLastHolders(const Job& job, const std::vector<size_t>& replaced);

// Why members that are alone in their groups cannot hand their states over to trainers that stand
// by; nothing: they can, or there are none. With Slipstream ranks have more state than that, and
// trainers of earlier releases do not know how.
std::optional<std::string> WhyNoHandOver(const Job& job);

// The members (indices in Job.ranks) that are alone in their groups, so that nobody else could pass
// on their state.
std::vector<size_t> LoneMembers(const Job& job);
inline bool HasLoneMember(const Job& job) { return !LoneMembers(job).empty(); }

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_
