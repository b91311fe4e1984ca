// Failures on purpose, for drills and tests.
#ifndef WORKER_TRAINER_FAULT_H_
#define WORKER_TRAINER_FAULT_H_

#include <cstdint>

#include "worker/trainer/config.h"

namespace paceline {

// Whether it is one of this rank in this generation.
bool Concerns(const FaultConfig& fault, const Member& member);

// Whether the fault happens to `rank` before `step`. With a probability it is drawn from
// (seed, rank, step) alone: mix(mix(mix(seed) ^ rank) ^ step) / 2^64 < probability, where mix
// is the finalizer of SplitMix64.
bool Happens(const FaultConfig& fault, uint64_t seed, int rank, int64_t step);

// Does what the configuration's faults ask for before this step. True: the loss of the step
// shall become NaN.
bool InjectFaults(const TrainerConfig& config, int64_t step);

}  // namespace paceline

#endif  // WORKER_TRAINER_FAULT_H_
