// Does what the controller asks for in checkpoint directories.
#ifndef WORKER_DAEMON_RUN_CHECKPOINT_TASK_H_
#define WORKER_DAEMON_RUN_CHECKPOINT_TASK_H_

#include "proto/worker.pb.h"

namespace paceline {

// Errors are in the result. May take as long as the file system likes. Thread-safe.
v1::CheckpointTaskResult RunCheckpointTask(const v1::CheckpointTask& task);

}  // namespace paceline

#endif  // WORKER_DAEMON_RUN_CHECKPOINT_TASK_H_
