// Whose state a rank can get when it has lost its own: that of the ranks of its group (recovery.h).
#ifndef CONTROLLER_CORE_STATE_GROUPS_H_
#define CONTROLLER_CORE_STATE_GROUPS_H_

#include <string>

#include "controller/core/job.h"

namespace paceline {

// Why the job cannot go on without its lost members: all ranks of a group that had the same state
// are lost. Empty: it can.
std::string WhyStateIsLost(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STATE_GROUPS_H_
