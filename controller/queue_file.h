// The file of queues that the controller is given (--queues), in YAML: a group for each queue, by
// its name, with the keys priority, submitter_priority, slots and gpus (docs/scheduling.md).
#ifndef CONTROLLER_QUEUE_FILE_H_
#define CONTROLLER_QUEUE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/core/schedule/queue.h"

namespace paceline {

// The queue "default" is there even if the file does not have it. NotFound: the file cannot be
// read. InvalidArgument: all problems, a line "FILE:LINE:COLUMN: ..." each.
absl::StatusOr<Queues> ReadQueueFile(const std::string& path);

// The same of a file's contents; `name` is for messages.
absl::StatusOr<Queues> ParseQueues(const std::string& yaml, const std::string& name);

}  // namespace paceline

#endif  // CONTROLLER_QUEUE_FILE_H_
