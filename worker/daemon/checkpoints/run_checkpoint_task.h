// Executes the controller's tasks in checkpoint directories.
#ifndef WORKER_DAEMON_CHECKPOINTS_RUN_CHECKPOINT_TASK_H_
#define WORKER_DAEMON_CHECKPOINTS_RUN_CHECKPOINT_TASK_H_

#include <string>
#include <vector>

#include "proto/worker.pb.h"
#include "worker/daemon/state/job_user.h"

namespace paceline {

// Errors are in the result. Blocks as long as the file system does. Thread-safe.
v1::CheckpointTaskResult RunCheckpointTask(const v1::CheckpointTask& task);

// Does the same as the trainers' user, and only in directories within `roots` (allowed_roots.h):
// jobs name the directories, and root could remove any file. Switches the calling thread, and no
// other thread, to that user for good.
v1::CheckpointTaskResult RunCheckpointTaskAs(const JobUser& user,
                                             const std::vector<std::string>& roots,
                                             const v1::CheckpointTask& task);

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKPOINTS_RUN_CHECKPOINT_TASK_H_
