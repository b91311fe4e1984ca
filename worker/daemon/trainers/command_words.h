// What a command that is not ours says of its own end: by the file that torch.distributed.elastic's
// `record` writes, and by what Python and C++ print of an error that nobody handled.
#ifndef WORKER_DAEMON_TRAINERS_COMMAND_WORDS_H_
#define WORKER_DAEMON_TRAINERS_COMMAND_WORDS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/daemon/core/trainer_end.h"

namespace paceline {

// `error_file`: its text; empty: there is none. `log_tail`: the end of its output. An error of a
// connection to another rank is FailureKind::kCollective: it follows from that rank's end.
LastWords CommandWords(const std::optional<ProcessEnd>& end, const std::string& error_file,
                       absl::string_view log_tail);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_COMMAND_WORDS_H_
