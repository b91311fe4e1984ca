// Writes the files that travel with a job (common/job_spec/code_files.h) into a folder of their
// own.
#ifndef WORKER_DAEMON_TRAINERS_UNPACK_CODE_H_
#define WORKER_DAEMON_TRAINERS_UNPACK_CODE_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/daemon/state/job_user.h"

namespace paceline {

// Makes `dir`, which does not exist, for the user alone, and the files in it. InvalidArgument:
// `bytes` are others than `sha256` says, or no files; ResourceExhausted: the disk is full;
// Cancelled: `stop` became true. What was written by then stays. The calling thread acts as the
// user from then on, and no other thread.
absl::Status UnpackCode(const JobUser& user, const std::string& dir, const std::string& sha256,
                        absl::string_view bytes, const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_UNPACK_CODE_H_
