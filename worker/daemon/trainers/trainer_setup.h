// Settings shared by all trainers of a node.
#ifndef WORKER_DAEMON_TRAINERS_TRAINER_SETUP_H_
#define WORKER_DAEMON_TRAINERS_TRAINER_SETUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/daemon/state/job_user.h"
#include "worker/daemon/state/node_paths.h"
#include "worker/shim/confinement.h"

namespace paceline {

struct TrainerSetup {
  NodePaths paths;
  std::string shim;          // Path, like the next two.
  std::string trainer;       // For CPU ranks.
  std::string trainer_cuda;  // For CUDA ranks.
  std::vector<std::string> environment;
  std::vector<std::string> command_environment;  // For commands, under the job's.
  // What built-in trainers get beside `environment` for data in object stores: where these are, and
  // their credentials.
  std::vector<std::string> store_environment;
  // What trainers may read of object stores, and where they keep it (proto/trainer.proto,
  // ObjectStores).
  std::vector<std::string> object_stores;
  std::string object_cache;
  int64_t object_cache_bytes = 0;
  JobUser user;
  Confinement limits;              // The user is not set.
  std::vector<std::string> roots;  // Of allowed paths; empty: all.
  int64_t log_segment_bytes = 8 << 20;
  double orphan_timeout_s = 600;
  std::string node;       // Name of this node.
  std::string address;    // Host at which other nodes reach this one.
  std::string interface;  // For the trainers' collectives and stores; empty: all.
  int default_threads = 1;
  bool takes_commands = true;
  std::string watch_dir;  // Python code that watches commands; empty: none.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_TRAINER_SETUP_H_
