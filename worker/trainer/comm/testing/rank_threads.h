// For tests: the ranks of a job as threads of one process, connected by Gloo.
#ifndef WORKER_TRAINER_COMM_TESTING_RANK_THREADS_H_
#define WORKER_TRAINER_COMM_TESTING_RANK_THREADS_H_

#include <functional>
#include <memory>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"

namespace paceline {

// The configuration of a job with `count` ranks, which have 20 s to connect.
TrainerConfig Ranks(int count);

// Runs `rank` on a thread for each rank of a job with this configuration; config.member.world_size
// is their number. Each gets a configuration with its rank, and its own groups, when all have
// connected. Returns when all have ended; an exception fails the test. Do not use Group::Barrier:
// torch's has a static tensor per process. `make_platform` is called on each rank's thread.
void RunRanks(
    const TrainerConfig& config,
    const std::function<void(const TrainerConfig& config, Groups& groups)>& rank,
    const std::function<std::unique_ptr<Platform>(int rank)>& make_platform = [](int) {
      return std::make_unique<CpuPlatform>();
    });

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_TESTING_RANK_THREADS_H_
