// How a job's batch is shared out when it goes on with fewer ranks.
//
// Keeping the global batch means the very same number of samples in each step: each rank takes its
// equal share, in as few forward passes as possible, of at most as many samples as before, since
// its memory holds no more. Where the share is no whole number, that number of ranks is impossible.
#ifndef COMMON_CORE_BATCH_RULE_H_
#define COMMON_CORE_BATCH_RULE_H_

#include <optional>

namespace paceline {

enum class BatchRule { kKeepGlobal, kKeepRank };

// Of one rank.
struct RankBatch {
  int samples = 0;  // Per forward pass.
  int passes = 0;   // Forward passes per step.

  friend bool operator==(const RankBatch& a, const RankBatch& b) {
    return a.samples == b.samples && a.passes == b.passes;
  }
};

// The batch of each of `ranks` ranks of a job whose `full_ranks` ranks have `full`; nothing if the
// rule has none. `least`: samples of a pass below which the model cannot train; a job that has
// fewer in `full` is left to itself. Requires: all numbers are positive, ranks <= full_ranks.
std::optional<RankBatch> BatchFor(BatchRule rule, int full_ranks, RankBatch full, int ranks,
                                  int least = 1);

// The greatest possible number of ranks that is at most `available`; 0 if there is none.
int PossibleRanks(BatchRule rule, int full_ranks, RankBatch full, int available, int least = 1);

}  // namespace paceline

#endif  // COMMON_CORE_BATCH_RULE_H_
