// Who can give a rank the state that it has lost: the other ranks of its group (recovery.h).
//
// Groups are those of the ladder's lowest level. If the model is sharded, that level has groups of
// replicas, and each position in the replicas of one makes a group: its ranks have the same part of
// the model.
#ifndef CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_
#define CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "common/core/ladder.h"
#include "controller/core/job/job.h"

namespace paceline {

// By seat: the home where the newest start placed it.
std::vector<RankHome> HomesOf(const Job& job);

// By seat: the number of its group.
std::vector<int> GroupsOfSeats(const Job& job);

// The group whose state the trainer has; -1: it has none. `groups`: GroupsOfSeats. A trainer that
// has just come from another position of a sharded model, or begun to stand by, has the state of
// its former group.
int GroupOfState(const Job& job, const RankState& trainer, const std::vector<int>& groups);
// Whether it has the state that belongs to its seat. Requires: it has a seat.
bool HasStateOfSeat(const Job& job, const RankState& trainer, const std::vector<int>& groups);

// Why the job cannot go on without its lost members: all ranks of a group with the same state are
// lost. Empty: it can.
std::string WhyStateIsLost(const Job& job);

// Of the members to be replaced (indices in Job.ranks), those that can be in one generation: in
// each group somebody has to stay who gives the state to the others.
std::vector<size_t> WithoutLastHolders(const Job& job, const std::vector<size_t>& replaced);

// Whether a member is alone in its group, so that nobody else could pass on its state.
bool HasLoneMember(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_
