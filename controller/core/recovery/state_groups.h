// Whose state a rank can get when it has lost its own: that of the ranks of its group (recovery.h).
#ifndef CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_
#define CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "common/core/ladder.h"
#include "controller/core/job/job.h"

namespace paceline {

// By seat: where the newest start placed it.
std::vector<RankHome> HomesOf(const Job& job);

// By seat: the number of its group.
std::vector<int> GroupsOfSeats(const Job& job);

// Why the job cannot go on without its lost members: all ranks of a group that had the same state
// are lost. Empty: it can.
std::string WhyStateIsLost(const Job& job);

// Of members that are to be replaced (indices in Job.ranks), those that can be in one generation:
// of each group somebody has to stay who gives the state to the others.
std::vector<size_t> WithoutLastHolders(const Job& job, const std::vector<size_t>& replaced);

// Whether a member is alone in its group: nobody else could give its state to another trainer.
bool HasLoneMember(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_STATE_GROUPS_H_
