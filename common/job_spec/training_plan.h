// The plan that a strategy amounts to for ranks in these places.
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
// without the others.
v1::TrainingPlan MakeTrainingPlan(int64_t version, const v1::Strategy& strategy,
                                  const std::vector<RankHome>& homes,
                                  const std::vector<bool>& filled = {});

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_TRAINING_PLAN_H_
