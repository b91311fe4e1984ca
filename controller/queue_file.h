// The controller's file of queues (--queues), in YAML: one group per queue, by name, with the keys
// priority, submitter_priority, slots and gpus (docs/scheduling.md).
#ifndef CONTROLLER_QUEUE_FILE_H_
#define CONTROLLER_QUEUE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/core/schedule/queue.h"

namespace paceline {

// The result always has the queue "default". NotFound if the file cannot be read; InvalidArgument
// with one line "FILE:LINE:COLUMN: ..." per problem.
absl::StatusOr<Queues> ReadQueueFile(const std::string& path);

// The same for a file's contents; `name` is used in messages.
absl::StatusOr<Queues> ParseQueues(const std::string& yaml, const std::string& name);

}  // namespace paceline

#endif  // CONTROLLER_QUEUE_FILE_H_
