// How far a training has come whose ranks make different numbers of steps.
//
// One step of the schedule is as many rank-steps as there are ranks, so that a learning rate falls
// with the work done, whoever did it. If the number of ranks changes, the fraction of a step that
// is done stays the same, rounded down to whole rank-steps.
//
// Thread-compatible.
#ifndef SLIPSTREAM_RANK_STEPS_H_
#define SLIPSTREAM_RANK_STEPS_H_

#include <cstdint>

namespace paceline {

class RankSteps {
 public:
  // Requires: ranks >= 1, steps >= 0, 0 <= remainder < ranks.
  explicit RankSteps(int ranks, int64_t steps = 0, int64_t remainder = 0)
      : ranks_(ranks), steps_(steps), remainder_(remainder) {}

  // Requires: rank_steps >= 0.
  void Add(int64_t rank_steps);

  RankSteps WithRanks(int ranks) const;

  int64_t steps() const { return steps_; }          // Whole steps.
  int64_t remainder() const { return remainder_; }  // Rank-steps beyond them.
  int ranks() const { return ranks_; }

  bool operator==(const RankSteps& other) const {
    return ranks_ == other.ranks_ && steps_ == other.steps_ && remainder_ == other.remainder_;
  }

 private:
  int ranks_;
  int64_t steps_;
  int64_t remainder_;
};

}  // namespace paceline

#endif  // SLIPSTREAM_RANK_STEPS_H_
