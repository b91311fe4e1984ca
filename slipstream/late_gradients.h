// Decides which gradients of a rank may be used.
//
// A gradient belongs to the version of the model that it was made with. In time it is used; late it
// is dropped. A rank that has dropped three in succession offers the next one however late it is
// (only in `drop`), so that no rank, and so no data, is left out for ever.
//
// Thread-compatible.
#ifndef SLIPSTREAM_LATE_GRADIENTS_H_
#define SLIPSTREAM_LATE_GRADIENTS_H_

#include <cstdint>

namespace paceline {

class LateGradients {
 public:
  static constexpr int kMissesBeforeStale = 3;

  // Offers a gradient made with version `made_at`, while the model has version `present`. False: it
  // is dropped, and counts as a miss.
  bool Offer(int64_t made_at, int64_t present, bool accepts_stale);

  void SetUsed() { misses_ = 0; }
  // A gradient was dropped for another reason.
  void SetDropped() { ++dropped_; }

  int misses() const { return misses_; }  // In succession.
  int64_t dropped() const { return dropped_; }

 private:
  int misses_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace paceline

#endif  // SLIPSTREAM_LATE_GRADIENTS_H_
