#include "worker/trainer/job_sizes.h"

#include <algorithm>
#include <optional>

#include "common/core/batch_rule.h"
#include "common/job_spec/job_spec.h"

namespace paceline {
namespace {

// Ranks that share gradients at each step, at least; 0: all of the job's.
int TogetherOf(const v1::JobSpec& spec) {
  const v1::Strategy& strategy = spec.strategy();
  if (!strategy.has_hsgd() && !strategy.has_local_sgd()) return 0;
  const v1::Recovery& recovery = spec.recovery();
  const bool varies = recovery.max_failures() > 0 &&
                      (recovery.min_ranks() < spec.ranks() || recovery.max_ranks() > spec.ranks());
  // Groups are of seats, of which some may be empty.
  return varies ? 1 : std::max(1, strategy.gradient_group_size());
}

}  // namespace

std::vector<JobSize> SizesOf(const v1::JobSpec& spec) {
  const v1::Recovery& recovery = spec.recovery();
  const BatchRule rule =
      recovery.batch() == v1::KEEP_RANK_BATCH ? BatchRule::kKeepRank : BatchRule::kKeepGlobal;
  const RankBatch full = {spec.batch_per_rank(), spec.accumulation_steps()};
  const int least = recovery.max_failures() > 0 ? recovery.min_ranks() : spec.ranks();
  const int most = std::max(spec.ranks(), recovery.max_ranks());
  std::vector<JobSize> sizes;
  for (int ranks = std::max(least, 1); ranks <= most; ++ranks) {
    if (ranks % std::max(spec.shards(), 1) != 0) continue;
    const std::optional<RankBatch> batch =
        BatchFor(rule, spec.ranks(), full, ranks, LeastSamples(spec.model()));
    if (batch.has_value()) sizes.push_back({ranks, batch->samples, TogetherOf(spec)});
  }
  return sizes;
}

}  // namespace paceline
