// The environment of a trainer: what the daemon's holds of an allow-list, and nothing else, so
// that a trainer does not depend on how its node's daemon happened to be started.
//
// Kept are PATH, HOME, USER, LOGNAME, SHELL, LANG, TZ, TMPDIR, LD_LIBRARY_PATH, LD_PRELOAD and
// all that begin with LC_, CUDA_, NVIDIA_, NCCL_, GLOO_, OMP_, MKL_, KMP_, GOMP_, TORCH_,
// PYTORCH_, MALLOC_ or PACELINE_, and the options of the sanitizers (ASAN_OPTIONS etc.).
#ifndef WORKER_DAEMON_TRAINER_ENVIRONMENT_H_
#define WORKER_DAEMON_TRAINER_ENVIRONMENT_H_

#include <string>
#include <vector>

namespace paceline {

// The entries ("KEY=value") of `environment` that are kept, in their order.
std::vector<std::string> ScrubEnvironment(const std::vector<std::string>& environment);

// The entries of this process.
std::vector<std::string> OwnEnvironment();

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINER_ENVIRONMENT_H_
