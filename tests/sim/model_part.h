// The part of a sharded model that a rank holds, and how far it is within a step or within a mean
// of parameters. Without shards all of it keeps its default.
#ifndef TESTS_SIM_MODEL_PART_H_
#define TESTS_SIM_MODEL_PART_H_

#include <cstdint>

#include "tests/sim/random.h"
#include "worker/trainer/core/rendezvous.h"

namespace paceline::sim {

struct ModelPart {
  int position = -1;    // In the replica; -1: it has none yet.
  bool lost = false;    // It has given up its state, and has not got another one.
  bool copied = false;  // It has its state from a copy, and has not trained since.
  // Stands for the values. Ranks of a replica have the parts of one state if and only if these
  // numbers are equal. 0: as at the beginning.
  uint64_t state = 0;
  uint64_t result = 0;  // Number of what it is prepared with, or of the latest that it was.
  int ranks = 0;        // Of the generation that it trained in last.
  RankPosition at;      // As TrainingState::position.
};

// The state after a step.
inline uint64_t StateAfter(uint64_t state, uint64_t result) {
  return Random(state ^ (result * 0x9e3779b97f4a7c15)).Next();
}

}  // namespace paceline::sim

#endif  // TESTS_SIM_MODEL_PART_H_
