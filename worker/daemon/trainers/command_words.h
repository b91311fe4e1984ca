// Reads what a command reports of its own end: in the file that `record` of
// torch.distributed.elastic writes, and in what Python and C++ print about an unhandled error.
#ifndef WORKER_DAEMON_TRAINERS_COMMAND_WORDS_H_
#define WORKER_DAEMON_TRAINERS_COMMAND_WORDS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/daemon/core/trainer_end.h"

namespace paceline {

// `error_file` is the text of that file, or empty. `log_tail` is the end of the command's output. A
// broken connection to another rank is FailureKind::kCollective: it follows from that rank's end.
LastWords CommandWords(const std::optional<ProcessEnd>& end, const std::string& error_file,
                       absl::string_view log_tail);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_COMMAND_WORDS_H_
