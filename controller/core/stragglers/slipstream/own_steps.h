// The measured steps of each rank in succession, for models in which ranks do not wait for one
// another.
//
// A rank that needs more steps than were measured starts again with its first.
//
// A stall is the part of a step beyond the rank's median, if the step takes kStall times as long
// (ladder_stalls.h). Nobody measures which stalls also hold up the rank's communication, but their
// share may be known. So one in so many stalls does, evenly spread over a rank's stalls and over
// the ranks (multiples of the golden ratio): nothing is random.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_STEPS_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_stalls.h"

namespace paceline {

struct OwnStep {
  double own_s = 0;
  double frozen_s = 0;  // From its beginning the rank's communication stands still for this long.
};

class OwnSteps {
 public:
  // Requires: `times` has a rank and a step; 0 <= freezing_share <= 1.
  OwnSteps(const OwnTimes& times, double freezing_share);

  int ranks() const { return ranks_; }
  int steps() const { return steps_; }  // Number measured for each rank.
  OwnStep At(int rank, int64_t step) const;

  double median_s(int rank) const { return medians_[static_cast<size_t>(rank)]; }
  // Time of a step without a stall, by the mean speed of the ranks' medians.
  double typical_s() const { return typical_s_; }
  // Time of a step of the job (as many rank-steps as there are ranks) if each rank paid only for
  // its own stalls, and communication were free.
  double ideal_s() const { return ideal_s_; }

 private:
  size_t Index(int rank, int64_t step) const;

  const int ranks_;
  const int steps_;
  std::vector<float> own_;       // [rank * steps_ + step].
  std::vector<float> frozen_;    // The same; empty: none freezes.
  std::vector<double> medians_;  // By rank.
  double typical_s_ = 0;
  double ideal_s_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_STEPS_H_
