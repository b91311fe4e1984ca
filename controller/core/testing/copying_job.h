// Jobs whose ranks keep copies of their states in host memory (recovery/copies.h).
#ifndef CONTROLLER_CORE_TESTING_COPYING_JOB_H_
#define CONTROLLER_CORE_TESTING_COPYING_JOB_H_

#include <cstdint>

#include "controller/core/testing/sharded_job.h"

namespace paceline {

// One replica of three ranks on the nodes a, b and c, which all train at step 10, with copies each
// 10 steps; x and y have a free slot each.
MemberJob OneReplica();

// Two replicas of two ranks each, which all have copies of step 10; x has a free slot.
MemberJob TwoReplicas();

// The rank's newest copy is of step `copied`; those up to `settled` have an outcome.
JobChange TellCopies(MemberJob& played, int rank, int64_t copied, int64_t settled, double at);
// All members have copies of this step.
void CopyAll(MemberJob& played, int64_t step, double at);

// All members train in the present generation, of whose copies they report nothing, and have lost
// so many steps.
void TrainOn(MemberJob& played, int64_t step, int64_t lost, double at);

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_COPYING_JOB_H_
