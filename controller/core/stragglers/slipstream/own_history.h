// The latest own steps of each rank of a job with Slipstream, one after the other.
//
// A rank that stalls goes on where the job is then, so that ranks have no steps in common
// (ladder_stalls.h): the n-th of one may be of another time than the n-th of another, and stalls
// that ranks have in common look as if they had not. So synchronous steps are predicted too long
// where stalls come together.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_HISTORY_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_stalls.h"

namespace paceline {

// Of one generation.
class OwnHistory {
 public:
  // Requires: ranks > 0.
  explicit OwnHistory(int ranks);

  // A step that is like others. What is not a rank or a time changes nothing.
  void Add(int rank, double own_s);

  // As many of the latest steps of each rank as there are of all, oldest first; as many are kept as
  // LadderStalls keeps.
  OwnTimes Take() const;

  // Steps of all ranks that took above kStall times the median of their rank, since the beginning.
  // Those of a rank's first kFirstSteps are not known to.
  int64_t stalls() const { return stalls_; }

  static constexpr int kFirstSteps = 32;

 private:
  struct Rank {
    std::vector<float> ring;  // Grows to window_; then the oldest is replaced.
    size_t next = 0;
    float median = 0;  // Of the ring; looked at now and then.
    int since_median = 0;
  };

  const size_t window_;
  std::vector<Rank> ranks_;
  std::vector<float> sorted_;  // Scratch.
  int64_t stalls_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_HISTORY_H_
