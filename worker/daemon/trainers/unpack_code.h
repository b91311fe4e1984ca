// Unpacks the files that travel with a job (common/job_spec/code_files.h) into a new folder.
#ifndef WORKER_DAEMON_TRAINERS_UNPACK_CODE_H_
#define WORKER_DAEMON_TRAINERS_UNPACK_CODE_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/daemon/state/job_user.h"

namespace paceline {

// Creates `dir`, which must not exist, for the user alone, and unpacks the files into it.
// InvalidArgument: `bytes` do not match `sha256` or contain no valid files; ResourceExhausted: the
// disk is full; Cancelled: `stop` became true. On an error, files written so far remain. Switches
// the calling thread, and no other thread, to the user for good.
absl::Status UnpackCode(const JobUser& user, const std::string& dir, const std::string& sha256,
                        absl::string_view bytes, const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_UNPACK_CODE_H_
