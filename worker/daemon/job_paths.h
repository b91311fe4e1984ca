// The paths that a job has a node open.
#ifndef WORKER_DAEMON_JOB_PATHS_H_
#define WORKER_DAEMON_JOB_PATHS_H_

#include <vector>

#include "proto/worker.pb.h"
#include "worker/shim/allowed_roots.h"

namespace paceline {

// Those of a trainer, by the job file's keys; only those that are given. `restore_from` of the plan
// is what "resume_from" means, or a checkpoint of the job's own.
std::vector<NamedPath> PathsOf(const v1::TrainerPlan& plan);

}  // namespace paceline

#endif  // WORKER_DAEMON_JOB_PATHS_H_
