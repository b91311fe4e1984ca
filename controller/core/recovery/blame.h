// Which rank's failure explains the end of a job.
//
// When one rank fails, the collectives of the others break: their failures are echoes, and
// the first failure that is none is the cause. Where there are only echoes, either a node is
// silent (its ranks are then given up as lost, which is no echo), or a rank did not come to
// a collective until the others' patience was over: it has not failed, it was stopped, and
// what it was doing meanwhile tells it apart.
#ifndef CONTROLLER_CORE_RECOVERY_BLAME_H_
#define CONTROLLER_CORE_RECOVERY_BLAME_H_

#include <optional>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

// In its phase for so long, while the others waited: not just caught between two steps.
inline constexpr absl::Duration kStuck = absl::Seconds(1);

// Of a paceline.v1.Phase, for people.
const char* PhaseName(int phase);

bool IsEcho(const TrainerExit& exit);

// Of ranks that have all ended, of which `echo` failed: the one that the others waited for;
// none if there is no such. Its exit says so, and quotes the echo.
std::optional<JobFailure> FindStuckRank(const std::vector<RankState>& ranks,
                                        const JobFailure& echo);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_BLAME_H_
