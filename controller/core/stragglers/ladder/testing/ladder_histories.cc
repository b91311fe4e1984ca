#include "controller/core/stragglers/ladder/testing/ladder_histories.h"

#include <random>

#include "absl/strings/str_cat.h"

namespace paceline {

DrawnTimes Stalling(int ranks, double share, double stall_s) {
  DrawnTimes wish;
  wish.ranks = ranks;
  wish.stall_share = share;
  wish.stall_s = stall_s;
  return wish;
}

DrawnTimes Slowed(int rank, double slowdown) {
  DrawnTimes wish;
  wish.slow_rank = rank;
  wish.slowdown = slowdown;
  return wish;
}

OwnTimes Draw(const DrawnTimes& wish) {
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

std::vector<RankHome> Homes(int ranks, int per_node, int per_rack) {
  std::vector<RankHome> homes;
  for (int rank = 0; rank < ranks; ++rank) {
    homes.push_back({absl::StrCat("n", rank / per_node), absl::StrCat("r", rank / per_rack)});
  }
  return homes;
}

std::vector<int> Equal(int ranks, int size) {
  return std::vector<int>(static_cast<size_t>(ranks / size), size);
}

}  // namespace paceline
