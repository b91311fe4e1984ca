// The plan that a strategy amounts to for ranks in these places.
//
// Strategies and plans count replicas of the model: a group is of consecutive replicas. Without
// shards each rank is one. With them, the ranks of one position in a group's replicas exchange with
// each other (common/core/lanes.h); trainers see to that.
#ifndef COMMON_JOB_SPEC_TRAINING_PLAN_H_
#define COMMON_JOB_SPEC_TRAINING_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/core/ladder.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"

namespace paceline {

// `strategy` is sound (CheckJobSpec); `seat_homes` has one entry per seat (position in the job).
// The ranks are the `filled_seats` (empty: all of them); the groups are those of all seats, without
// the others. `shards`: seats of a replica; of these, all are filled or none.
v1::TrainingPlan MakeTrainingPlan(int64_t version, const v1::Strategy& strategy,
                                  const std::vector<RankHome>& seat_homes,
                                  const std::vector<bool>& filled_seats = {}, int shards = 1);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_TRAINING_PLAN_H_
