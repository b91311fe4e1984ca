// Which gradients of a rank may be used.
//
// A gradient belongs to the version of the model that it was made at. In time it is used; late it
// is dropped. Whoever has dropped three in a row offers the next one however late it is (`drop`
// only), so that no rank is left out for ever: its data would be, too.
//
// Thread-compatible.
#ifndef SLIPSTREAM_LATE_GRADIENTS_H_
#define SLIPSTREAM_LATE_GRADIENTS_H_

#include <cstdint>

namespace paceline {

class LateGradients {
 public:
  static constexpr int kMissesBeforeStale = 3;

  // A gradient made at version `made_at`, when the model has version `present`. False: it is
  // dropped, and counts as a miss.
  bool Offer(int64_t made_at, int64_t present, bool accepts_stale);

  void SetUsed() { misses_ = 0; }
  // For another reason.
  void SetDropped() { ++dropped_; }

  int misses() const { return misses_; }  // In a row.
  int64_t dropped() const { return dropped_; }

 private:
  int misses_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace paceline

#endif  // SLIPSTREAM_LATE_GRADIENTS_H_
