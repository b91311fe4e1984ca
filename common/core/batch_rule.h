// Decides how a job's batch is divided when it continues with fewer ranks, or with more.
//
// Keeping the global batch means exactly the same number of samples per step: each rank takes an
// equal share in as few forward passes as possible, each with at most as many samples as before,
// since its memory holds no more. A number of ranks is impossible if the share is no whole number.
// The ranks of a replica of a sharded model share the batch like any others; only their number goes
// in whole replicas.
#ifndef COMMON_CORE_BATCH_RULE_H_
#define COMMON_CORE_BATCH_RULE_H_

#include <optional>

namespace paceline {

enum class BatchRule { kKeepGlobal, kKeepRank };

// One rank's batch.
struct RankBatch {
  int samples = 0;  // Samples per forward pass.
  int passes = 0;   // Forward passes per step.

  friend bool operator==(const RankBatch& a, const RankBatch& b) {
    return a.samples == b.samples && a.passes == b.passes;
  }
};

// The batch of each of `ranks` ranks of a job whose `full_ranks` ranks have `full`; nothing if the
// rule allows none. `least`: fewest samples per pass with which the model can train; ignored for a
// job that already has fewer in `full`. Requires: all numbers are positive.
std::optional<RankBatch> BatchFor(BatchRule rule, int full_ranks, RankBatch full, int ranks,
                                  int least = 1);

// The greatest possible multiple of `unit` ranks up to `available` and `most`; 0 if there is none.
// `unit`: ranks of a replica of the model; it divides `full_ranks`. `most`: 0 stands for
// `full_ranks`.
int PossibleRanks(BatchRule rule, int full_ranks, RankBatch full, int available, int least = 1,
                  int unit = 1, int most = 0);

}  // namespace paceline

#endif  // COMMON_CORE_BATCH_RULE_H_
