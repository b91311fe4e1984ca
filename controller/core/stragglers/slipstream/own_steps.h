// The steps of each rank one after the other, as they were measured, for what plays ranks that do
// not wait for one another.
//
// A rank that needs more steps than were measured goes through its own again from the first.
//
// A stall is what a step takes beyond the rank's median, if that is kStall times as long
// (ladder_stalls.h). Nobody measures which stalls hold up the rank's communication as well; what
// may be known is their share. So every so many stalls one does, evenly spread over a rank's stalls
// and over the ranks (multiples of the golden ratio): nothing is drawn.
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
  double frozen_s = 0;  // At its beginning: the rank's communication stands still.
};

class OwnSteps {
 public:
  // Requires: times of one rank and step at least; 0 <= freezing_share <= 1.
  OwnSteps(const OwnTimes& times, double freezing_share);

  int ranks() const { return ranks_; }
  int steps() const { return steps_; }  // Measured of each rank.
  OwnStep At(int rank, int64_t step) const;

  double median_s(int rank) const { return medians_[static_cast<size_t>(rank)]; }
  // Of a step without a stall: by the mean speed of the ranks' medians.
  double typical_s() const { return typical_s_; }
  // Of a step of the job (as many steps of ranks as there are ranks) if each rank paid for its own
  // stalls only, and communication were free.
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
