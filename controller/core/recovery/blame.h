// Which rank's failure explains the end of a job.
//
// When one rank fails, the collectives of the others break. Their failures are echoes, and the
// first failure that is no echo is the cause. If there are only echoes, either a node is
// unreachable (its ranks are then given up as lost, which is no echo), or a rank did not come to a
// collective before the others lost patience. Such a rank has not failed but was stopped; what it
// was doing meanwhile tells which one it is.
#ifndef CONTROLLER_CORE_RECOVERY_BLAME_H_
#define CONTROLLER_CORE_RECOVERY_BLAME_H_

#include <optional>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

// A rank in its phase for so long, while others waited, was not merely caught between steps.
inline constexpr absl::Duration kStuck = absl::Seconds(1);

// Name of a paceline.v1.Phase, for people.
const char* PhaseName(int phase);

bool IsEcho(const TrainerExit& exit);

// Among ranks that have all ended, of which `echo` failed: the one that the others waited for, if
// there is one. Its exit says so and quotes the echo.
std::optional<JobFailure> FindStuckRank(const std::vector<RankState>& ranks,
                                        const JobFailure& echo);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_BLAME_H_
