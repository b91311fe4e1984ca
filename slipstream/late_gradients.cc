#include "slipstream/late_gradients.h"

namespace paceline {

bool LateGradients::Offer(int64_t made_at, int64_t present, bool accepts_stale) {
  if (made_at == present || (accepts_stale && misses_ >= kMissesBeforeStale)) return true;
  ++misses_;
  ++dropped_;
  return false;
}

}  // namespace paceline
