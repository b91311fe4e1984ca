// The part of a sharded model that a rank holds, and how far it is within a step or within a mean
// of parameters (worker/trainer/core/sharded_rendezvous.h). Without shards all of it keeps its
// default.
#ifndef TESTS_SIM_MODEL_PART_H_
#define TESTS_SIM_MODEL_PART_H_

#include <cstdint>

#include "tests/sim/random.h"

namespace paceline::sim {

struct ModelPart {
  int position = -1;  // In the replica; -1: it has not trained, and what it has fits anywhere.
  bool lost = false;  // It has given up its state, and has not got another one.
  // Stands for the values. Ranks of a replica have the parts of one state if and only if these
  // numbers are equal. 0: as at the beginning.
  uint64_t state = 0;

  bool prepared = false;  // It has the mean gradients, and has not applied them.
  bool exchanged = true;  // The mean after the steps done is applied, or there is none.
  bool mean_prepared = false;
  bool final_mean = false;  // The mean after the last step is applied.
  uint64_t result = 0;      // Number of what it is prepared with, or of the latest that it was.

  // As in RankPosition.
  int64_t decided = 0;
  int decided_rank = -1;
  int64_t alone_below = 0;
};

// The state after a step.
inline uint64_t StateAfter(uint64_t state, uint64_t result) {
  return Random(state ^ (result * 0x9e3779b97f4a7c15)).Next();
}

}  // namespace paceline::sim

#endif  // TESTS_SIM_MODEL_PART_H_
