// The latest own steps of each rank of a job with Slipstream, in succession.
//
// A rank that stalls goes on where the job then is, so ranks have no steps in common
// (ladder_stalls.h): the n-th step of one may be from another time than the n-th of another, and
// common stalls do not look common. So synchronous steps are predicted too long if stalls come
// together.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_HISTORY_H_
#define CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_stalls.h"

namespace paceline {

// For one generation.
class OwnHistory {
 public:
  // Requires: ranks > 0.
  explicit OwnHistory(int ranks);

  // Takes in a typical step. An impossible rank or time changes nothing.
  void Add(int rank, double own_s);

  // The latest steps of each rank, oldest first: as many as there are of every rank, at most as
  // many as LadderStalls keeps.
  OwnTimes Take() const;

  // Steps of all ranks since the beginning that took more than kStall times the median of their
  // rank. It is not known for a rank's first kFirstSteps.
  int64_t stalls() const { return stalls_; }

  static constexpr int kFirstSteps = 32;

 private:
  struct Rank {
    std::vector<float> ring;  // Grows to window_; then the oldest is replaced.
    size_t next = 0;
    float median = 0;  // Of the ring; renewed now and then.
    int since_median = 0;
  };

  const size_t window_;
  std::vector<Rank> ranks_;
  std::vector<float> sorted_;  // Scratch.
  int64_t stalls_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_SLIPSTREAM_OWN_HISTORY_H_
