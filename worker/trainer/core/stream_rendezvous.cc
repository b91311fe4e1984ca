#include "worker/trainer/core/stream_rendezvous.h"

#include <algorithm>
#include <cstddef>

namespace paceline {

StreamAgreement AgreeOnAverages(const std::vector<StreamPosition>& reported) {
  StreamAgreement agreement;
  agreement.positions = reported;
  int source = 0;
  int64_t waiting = -1;
  for (size_t rank = 0; rank < reported.size(); ++rank) {
    const StreamPosition& position = reported[rank];
    waiting = std::max(waiting, position.begun);
    if (position.taken <= agreement.newest) continue;
    agreement.newest = position.taken;
    source = static_cast<int>(rank);
  }
  for (size_t rank = 0; rank < reported.size(); ++rank) {
    StreamPosition& position = agreement.positions[rank];
    if (position.taken == agreement.newest) continue;
    position.taken = agreement.newest;
    position.latest = std::max(position.latest, agreement.newest);
    agreement.gifts.push_back({source, static_cast<int>(rank)});
  }
  if (waiting <= agreement.newest) return agreement;
  const bool dropped =
      std::any_of(reported.begin(), reported.end(), [waiting](const StreamPosition& one) {
        return one.latest >= waiting && one.begun != waiting;
      });
  if (!dropped) return agreement;
  for (StreamPosition& position : agreement.positions) {
    if (position.begun == waiting) position.begun = -1;
  }
  return agreement;
}

}  // namespace paceline
