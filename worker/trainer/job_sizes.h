// The numbers of ranks that a job may have.
#ifndef WORKER_TRAINER_JOB_SIZES_H_
#define WORKER_TRAINER_JOB_SIZES_H_

#include <vector>

#include "proto/job_spec.pb.h"
#include "worker/trainer/config.h"

namespace paceline {

// With as many samples as the controller then gives each rank (common/core/batch_rule.h), by ranks.
// Requires: the spec has its defaults, and has been checked.
std::vector<JobSize> SizesOf(const v1::JobSpec& spec);

}  // namespace paceline

#endif  // WORKER_TRAINER_JOB_SIZES_H_
