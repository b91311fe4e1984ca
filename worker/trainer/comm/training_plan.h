// Reading a training plan from the point of view of one rank, and passing it between ranks.
#ifndef WORKER_TRAINER_COMM_TRAINING_PLAN_H_
#define WORKER_TRAINER_COMM_TRAINING_PLAN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/config.h"

namespace paceline {

// InvalidArgument when the plan does not fit so many ranks of a job of this kind: sizes that do
// not add up, an epoch or period below 1, a last level that does not hold all ranks, a format
// that is not for parameters, levels in a job without or none in a job with; Slipstream in a job
// without or none in a job with, or with bounds that cannot be.
absl::Status CheckPlan(const TrainingPlan& plan, StrategyConfig::Kind kind, int world_size);

// The ranks of the group that holds `rank`, ascending; it alone if there are no groups.
std::vector<int> MembersOf(const std::vector<int>& groups, int rank);

// Members and use (group.h) of all groups of parameters and gradients that a rank needs.
std::vector<std::pair<std::vector<int>, std::string>> GroupsOf(const TrainingPlan& plan, int rank);

// For people: "2:2,4:3+5,8:8:int8", period and group size of each level; sizes that differ
// are all listed. "none" without levels. Of Slipstream its mode: "free".
std::string LadderText(const TrainingPlan& plan);

// One line of text, and back. InvalidArgument when it is not such a line.
std::string EncodePlan(const TrainingPlan& plan);
absl::StatusOr<TrainingPlan> DecodePlan(absl::string_view text);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_TRAINING_PLAN_H_
