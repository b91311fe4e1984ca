// Makes a rank fail on purpose, for drills and tests.
#ifndef WORKER_TRAINER_FAULT_H_
#define WORKER_TRAINER_FAULT_H_

#include "worker/trainer/config.h"

namespace paceline {

// Injects those of config.faults that belong to `step`. Throws, ends the process, or takes
// long.
void InjectFaults(const TrainerConfig& config, int64_t step);

}  // namespace paceline

#endif  // WORKER_TRAINER_FAULT_H_
