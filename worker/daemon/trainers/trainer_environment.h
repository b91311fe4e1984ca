// The environment of a trainer: what the daemon's holds of an allow-list, and nothing else, so
// that a trainer does not depend on how its node's daemon happened to be started.
//
// Kept are PATH, HOME, USER, LOGNAME, SHELL, LANG, TZ, TMPDIR, LD_LIBRARY_PATH, LD_PRELOAD and
// all that begin with LC_, CUDA_, NVIDIA_, NCCL_, GLOO_, OMP_, MKL_, KMP_, GOMP_, TORCH_,
// PYTORCH_, MALLOC_ or PACELINE_, and the options of the sanitizers (ASAN_OPTIONS etc.).
#ifndef WORKER_DAEMON_TRAINERS_TRAINER_ENVIRONMENT_H_
#define WORKER_DAEMON_TRAINERS_TRAINER_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "proto/worker.pb.h"

namespace paceline {

// The entries ("KEY=value") of `environment` that are kept, in their order.
std::vector<std::string> ScrubEnvironment(const std::vector<std::string>& environment);

// The entries of this process.
std::vector<std::string> OwnEnvironment();

// Where a rank's command finds what Paceline has for it.
struct CommandSurroundings {
  std::string master_host;  // Of rank 0's store, that the command opens by itself.
  int master_port = 0;
  std::string own_dir;    // That it can write.
  std::string socket;     // Of the daemon.
  std::string ring;       // Its step ring; empty: it is not watched.
  std::string watch_dir;  // Comes first in PYTHONPATH if it is watched.
  std::string device;     // Network device of collectives; empty: found by host name.
  int threads = 1;
};

// The environment of a rank's command: that of `passed_on`, over it the job's, over that what
// torchrun sets for a worker (torch.distributed.run, "Environment Variables"), and PACELINE_*. By
// name; each name once.
std::vector<std::string> CommandEnvironment(const std::vector<std::string>& passed_on,
                                            const v1::TrainerPlan& plan,
                                            const CommandSurroundings& surroundings);

// Whether two such environments ("KEY=value" and a NUL each) are those of the same rank in the same
// surroundings, so that a start under one is as one under the other: they differ in what each start
// has of its own alone (the address of the store, the number of restarts, the rank's files).
bool IsSameRank(const std::string& a, const std::string& b);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_ENVIRONMENT_H_
