#include "controller/core/dropped_totals.h"

#include <algorithm>

namespace paceline {

void DroppedTotals::Begin(const NodeName& node, const std::string& daemon, int64_t known) {
  Daemon& latest = daemons_[node];
  if (latest.uid != daemon) latest = {daemon, 0};
  latest.counted = std::max(latest.counted, known);
}

int64_t DroppedTotals::Take(const NodeName& node, int64_t total) {
  Daemon& latest = daemons_[node];
  if (total <= latest.counted) return 0;
  const int64_t before = latest.counted;
  latest.counted = total;
  return total - before;
}

}  // namespace paceline
