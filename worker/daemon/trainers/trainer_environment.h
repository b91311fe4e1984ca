// The environment of a trainer: only those variables of the daemon that are on an allow-list, so
// that a trainer does not depend on how its daemon was started.
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

// Returns the entries ("KEY=value") of `environment` that are kept, in order.
std::vector<std::string> ScrubEnvironment(const std::vector<std::string>& environment);

// Returns the entries by which built-in trainers find object stores: AWS_*, the tokens of Google
// Cloud, authorities of TLS, and proxies. They may be secrets.
std::vector<std::string> StoreEnvironment(const std::vector<std::string>& environment);

// The environment of a trainer: `kept` of the daemon's, and `of_stores` if the job's data is there
// and no program of the job's own runs.
std::vector<std::string> TrainerEnvironment(const std::vector<std::string>& kept,
                                            const std::vector<std::string>& of_stores,
                                            const v1::JobSpec& spec);

// The environment of this process.
std::vector<std::string> OwnEnvironment();

// What a rank's command needs to find Paceline.
struct CommandSurroundings {
  // Of rank 0's store, which the command opens itself; not of a session.
  std::string master_host;
  int master_port = 0;
  std::string own_dir;    // Writable by the command.
  std::string socket;     // The daemon's.
  std::string ring;       // Its step ring; empty: its steps are not measured.
  std::string watch_dir;  // First in PYTHONPATH if there is a ring; may be empty.
  std::string device;     // Network device for collectives; empty: found by host name.
  int threads = 1;
  double orphan_timeout_s = 600;  // Without a daemon for so long, a session ends.
};

// Returns the environment of a rank's command, sorted by name without duplicates: `passed_on`,
// overridden by the job's, then by what torchrun sets for a worker (torch.distributed.run,
// "Environment Variables"), and PACELINE_*. A session has none of torchrun's variables: its rank
// may change while it runs, and paceline.init() asks the daemon.
std::vector<std::string> CommandEnvironment(const std::vector<std::string>& passed_on,
                                            const v1::TrainerPlan& plan,
                                            const CommandSurroundings& surroundings);

// Whether two such environments (each "KEY=value" followed by a NUL) belong to the same rank in the
// same surroundings. They may differ in what is special to each start: the store's address, the
// number of restarts, the rank's files.
bool IsSameRank(const std::string& a, const std::string& b);

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_ENVIRONMENT_H_
