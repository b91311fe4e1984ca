// For tests: the ranks of a job as threads of one process, connected by Gloo.
#ifndef WORKER_TRAINER_COMM_TESTING_RANK_THREADS_H_
#define WORKER_TRAINER_COMM_TESTING_RANK_THREADS_H_

#include <functional>
#include <memory>

#include "worker/trainer/comm/cpu_platform.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"

namespace paceline {

// Runs `rank` in a thread for each rank of a job with this configuration; config.member.world_size
// is their number. Each has a configuration with its rank and groups of its own. Returns when
// all have ended; an exception of one is a failure of the test. Group::Barrier is not for
// threads of one process: torch's has a static tensor. `make_platform` is called on the thread
// of each rank.
void RunRanks(
    const TrainerConfig& config,
    const std::function<void(const TrainerConfig& config, Groups& groups)>& rank,
    const std::function<std::unique_ptr<Platform>(int rank)>& make_platform = [](int) {
      return std::make_unique<CpuPlatform>();
    });

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_TESTING_RANK_THREADS_H_
