// The plan that a strategy amounts to for ranks in these places.
#ifndef COMMON_JOB_SPEC_TRAINING_PLAN_H_
#define COMMON_JOB_SPEC_TRAINING_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/core/ladder.h"
#include "proto/job_spec.pb.h"
#include "proto/plan.pb.h"

namespace paceline {

// `strategy` is sound (CheckJobSpec); `homes` has one entry per rank.
v1::TrainingPlan MakeTrainingPlan(int64_t epoch, const v1::Strategy& strategy,
                                  const std::vector<RankHome>& homes);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_TRAINING_PLAN_H_
