// Interprets a training plan for one rank, and passes plans between ranks.
#ifndef WORKER_TRAINER_COMM_TRAINING_PLAN_H_
#define WORKER_TRAINER_COMM_TRAINING_PLAN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/core/lanes.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/averaging_schedule.h"
#include "worker/trainer/core/stream_schedule.h"

namespace paceline {

// InvalidArgument when the plan does not fit `world_size` ranks of a job of this kind: sizes that
// do not add up; a version or period below 1; a last level without all ranks; an outer step of
// impossible numbers; a streamed one beside other levels, with shards, or in whose period fragments
// and delay do not fit; levels or Slipstream in a job without them, or
// none in a job with them; impossible Slipstream bounds; Slipstream with shards.
absl::Status CheckPlan(const TrainingPlan& plan, StrategyConfig::Kind kind, int world_size,
                       int shards = 1);

// The same for the job of this configuration. Also InvalidArgument for a format other than fp32
// where several positions of a replica hold the same parameters (TrainerConfig::mesh): each would
// round them beside others, and so differently; for a streamed level where the optimizer's state is
// averaged too, or parameters have a compensation.
absl::Status CheckPlanOf(const TrainingPlan& plan, const TrainerConfig& config);

// The ranks in the group of `rank`, ascending; just `rank` if there are no groups.
std::vector<int> MembersOf(const std::vector<int>& groups, int rank);

// When its levels act.
AveragingSchedule ScheduleOf(const TrainingPlan& plan, const StrategyConfig& strategy);

// Whether its one level has a streamed outer step; the schedule's one period is then the interval
// between two averages.
bool IsStreamed(const TrainingPlan& plan);
StreamSchedule StreamScheduleOf(const TrainingPlan& plan, const StrategyConfig& strategy);

// Members and use (group.h) of all parameter and gradient groups that a rank needs: level by level,
// then the gradients'. With shards a plan's groups are of replicas, and a rank's group is its lane
// in them: the ranks of its position.
std::vector<std::pair<std::vector<int>, std::string>> GroupsOf(const TrainingPlan& plan, int rank,
                                                               const Lanes& lanes = {});

// The ranks of the member's replica that differ from it in one dimension of `mesh` alone, for each
// dimension, ascending (Workload::mesh).
std::vector<std::vector<int>> MeshGroupsOf(const std::vector<int>& mesh, const Member& member);

// All ranks of the replicas of `lane`, ascending.
std::vector<int> ReplicasOf(const std::vector<int>& lane, const Lanes& lanes);

// For people: period and group size of each level, "2:2,4:3+5,8:8:int8:nesterov"; lists all sizes
// if they differ. Behind a streamed outer step are fragments, delay and alpha: ":nesterov/4/5/0.5".
// "none" without levels. For Slipstream its mode: "free".
std::string LadderText(const TrainingPlan& plan);

// Converts a plan to one line of text, and back. InvalidArgument for any other text.
std::string EncodePlan(const TrainingPlan& plan);
absl::StatusOr<TrainingPlan> DecodePlan(absl::string_view text);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_TRAINING_PLAN_H_
