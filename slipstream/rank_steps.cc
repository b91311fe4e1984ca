#include "slipstream/rank_steps.h"

namespace paceline {

void RankSteps::Add(int64_t rank_steps) {
  remainder_ += rank_steps;
  steps_ += remainder_ / ranks_;
  remainder_ %= ranks_;
}

RankSteps RankSteps::WithRanks(int ranks) const {
  return RankSteps(ranks, steps_, remainder_ * ranks / ranks_);
}

}  // namespace paceline
