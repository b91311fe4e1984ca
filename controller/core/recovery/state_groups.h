// Who can give a rank the state that it has lost: the other ranks of its group (recovery.h).
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
