#include "common/core/batch_rule.h"

#include <algorithm>
#include <cstdint>

namespace paceline {

std::optional<RankBatch> BatchFor(BatchRule rule, int full_ranks, RankBatch full, int ranks,
                                  int least) {
  if (rule == BatchRule::kKeepRank || ranks == full_ranks) return full;
  const int64_t global = int64_t{full_ranks} * full.samples * full.passes;
  if (global % ranks != 0) return std::nullopt;
  const int64_t share = global / ranks;
  int64_t samples = std::min<int64_t>(full.samples, share);
  while (share % samples != 0) --samples;
  if (samples < std::min(least, full.samples)) return std::nullopt;
  return RankBatch{static_cast<int>(samples), static_cast<int>(share / samples)};
}

int PossibleRanks(BatchRule rule, int full_ranks, RankBatch full, int available, int least,
                  int unit, int most) {
  int ranks = std::min(available, most == 0 ? full_ranks : most);
  ranks -= ranks % unit;
  while (ranks > 0 && !BatchFor(rule, full_ranks, full, ranks, least).has_value()) ranks -= unit;
  return std::max(ranks, 0);
}

}  // namespace paceline
