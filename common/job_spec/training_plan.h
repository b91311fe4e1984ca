// The plan that a strategy amounts to for ranks in these places.
//
// A strategy counts replicas of the model: the sizes and scopes of its ladder and of its groups of
// gradients are of replicas, which without shards are the ranks. A plan counts ranks: its groups
// are sizes of groups of consecutive ranks, always of whole replicas. This is where the one becomes
// the other. Who exchanges with whom in such a group are the ranks of the same position
// (common/core/lanes.h).
#ifndef COMMON_JOB_SPEC_TRAINING_PLAN_H_
#define COMMON_JOB_SPEC_TRAINING_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/core/ladder.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"

namespace paceline {

// `strategy` is sound (CheckJobSpec); `homes` has one entry per seat (position in the job). The
// ranks are the seats that are `filled` (empty: all of them); the groups are those of all seats,
// without the others. Of the `shards` seats of a replica, all are filled or none.
v1::TrainingPlan MakeTrainingPlan(int64_t version, const v1::Strategy& strategy,
                                  const std::vector<RankHome>& homes,
                                  const std::vector<bool>& filled = {}, int shards = 1);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_TRAINING_PLAN_H_
