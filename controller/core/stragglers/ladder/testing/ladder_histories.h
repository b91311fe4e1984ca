// Own times drawn as in the notes on hierarchical SGD, for tests.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_TESTING_LADDER_HISTORIES_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_TESTING_LADDER_HISTORIES_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/ladder.h"
#include "controller/core/stragglers/ladder/ladder_stalls.h"

namespace paceline {

struct DrawnTimes {
  int ranks = 64;
  int steps = 1000;
  double base_s = 0.055;
  double jitter = 0;  // A step takes between 1 - jitter and 1 + jitter times base_s.
  double stall_share = 0;
  double stall_s = 1;
  int slow_rank = -1;
  double slowdown = 1;  // Of the slow rank, at each step.
  uint64_t seed = 1;
};

DrawnTimes Stalling(int ranks, double share, double stall_s = 1);

DrawnTimes Slowed(int rank, double slowdown);

// Each rank may stall at each step, independently of others.
OwnTimes Draw(const DrawnTimes& wish);

// Equal numbers of ranks on each node and of nodes in each rack.
std::vector<RankHome> Homes(int ranks, int per_node, int per_rack);

// Groups of the same size.
std::vector<int> Equal(int ranks, int size);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_TESTING_LADDER_HISTORIES_H_
