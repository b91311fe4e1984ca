#include "controller/core/checkpoint/retention.h"

#include <algorithm>

namespace paceline {

std::vector<CheckpointKey> FindSurplus(const std::vector<Checkpoint>& records,
                                       const CheckpointPolicy& policy,
                                       const std::function<bool(const CheckpointKey&)>& in_use) {
  std::vector<CheckpointKey> surplus;
  if (policy.keep_latest == 0) return surplus;
  int newer = 0;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->state != CheckpointState::kComplete || !record->base.empty()) continue;
    const bool among_latest = newer++ < std::max(1, policy.keep_latest);
    const bool by_step = policy.keep_every > 0 && record->key.step % policy.keep_every == 0;
    if (among_latest || by_step || record->pinned || in_use(record->key)) continue;
    surplus.push_back(record->key);
  }
  return surplus;
}

}  // namespace paceline
