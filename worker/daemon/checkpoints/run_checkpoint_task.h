// Does what the controller asks for in checkpoint directories.
#ifndef WORKER_DAEMON_CHECKPOINTS_RUN_CHECKPOINT_TASK_H_
#define WORKER_DAEMON_CHECKPOINTS_RUN_CHECKPOINT_TASK_H_

#include <string>
#include <vector>

#include "proto/worker.pb.h"
#include "worker/daemon/state/job_user.h"

namespace paceline {

// Errors are in the result. May take as long as the file system likes. Thread-safe.
v1::CheckpointTaskResult RunCheckpointTask(const v1::CheckpointTask& task);

// The same as the trainers' user, and only for directories within `roots` (allowed_roots.h): the
// directories are named by jobs, and who removes files as root removes any. The calling thread acts
// as that user from then on, and no other thread.
v1::CheckpointTaskResult RunCheckpointTaskAs(const JobUser& user,
                                             const std::vector<std::string>& roots,
                                             const v1::CheckpointTask& task);

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKPOINTS_RUN_CHECKPOINT_TASK_H_
