// Own times as the notes on hierarchical SGD draw them, for tests.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_HISTORIES_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_HISTORIES_H_

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
  double jitter = 0;  // A step takes between 1 - jitter and 1 + jitter of it.
  double stall_share = 0;
  double stall_s = 1;
  int slow_rank = -1;
  double slowdown = 1;  // Of the slow rank, at each step.
  uint64_t seed = 1;
};

inline DrawnTimes Stalling(int ranks, double share, double stall_s = 1) {
  DrawnTimes wish;
  wish.ranks = ranks;
  wish.stall_share = share;
  wish.stall_s = stall_s;
  return wish;
}

inline DrawnTimes Slowed(int rank, double slowdown) {
  DrawnTimes wish;
  wish.slow_rank = rank;
  wish.slowdown = slowdown;
  return wish;
}

// Each rank stalls at each step by chance, independently.
inline OwnTimes Draw(const DrawnTimes& wish) {
  std::mt19937_64 random(wish.seed);
  std::bernoulli_distribution stalls(wish.stall_share);
  std::uniform_real_distribution<double> jitter(1 - wish.jitter, 1 + wish.jitter);
  OwnTimes times{wish.ranks, wish.steps, {}};
  times.seconds.reserve(static_cast<size_t>(wish.ranks) * static_cast<size_t>(wish.steps));
  for (int step = 0; step < wish.steps; ++step) {
    for (int rank = 0; rank < wish.ranks; ++rank) {
      const double base_s = wish.jitter > 0 ? wish.base_s * jitter(random) : wish.base_s;
      const double own = base_s * (rank == wish.slow_rank ? wish.slowdown : 1) +
                         (stalls(random) ? wish.stall_s : 0);
      times.seconds.push_back(static_cast<float>(own));
    }
  }
  return times;
}

// Ranks on nodes and nodes in racks, as many on each.
inline std::vector<RankHome> Homes(int ranks, int per_node, int per_rack) {
  std::vector<RankHome> homes;
  for (int rank = 0; rank < ranks; ++rank) {
    homes.push_back({absl::StrCat("n", rank / per_node), absl::StrCat("r", rank / per_rack)});
  }
  return homes;
}

// Groups of the same size.
inline std::vector<int> Equal(int ranks, int size) {
  return std::vector<int>(static_cast<size_t>(ranks / size), size);
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_HISTORIES_H_
