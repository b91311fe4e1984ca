// What the cluster knows that matters for a job's stragglers.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLER_FACTS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLER_FACTS_H_

#include "controller/core/cluster/cluster.h"
#include "controller/core/job/job.h"
#include "controller/core/stragglers/job/job_stragglers.h"

namespace paceline {

// Valid until the cluster's next Step. A spare counts as checked unless the newest check of its
// node found something bad.
JobView ViewJob(const Cluster& cluster, const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STRAGGLER_FACTS_H_
