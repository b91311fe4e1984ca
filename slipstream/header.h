// What the ranks tell each other at the beginning of a round: numbers that are summed over all.
//
// All numbers are doubles. Counts and votes are integers whose sums are exact; ranks that see the
// same sums decide the same.
//
// A vote is how far the newest that a rank is ready for (plan, save order, generation) is ahead of
// what is in force on all of them. With its square in the sum, too, all tell the same if
// N * sum of squares = (sum)^2 (Cauchy-Schwarz). A hash travels likewise, in two parts.
//
// Pure.
#ifndef SLIPSTREAM_HEADER_H_
#define SLIPSTREAM_HEADER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace paceline {

constexpr int kMaxSlipstreamRanks = 4096;

// Bits of a hash that are compared.
constexpr int kHashBits = 38;

// Of one rank.
struct RoundHeader {
  int64_t steps = 0;        // Rank-steps in the update that it sends in this round.
  bool ready = false;       // Its gradient may be used,
  bool stale = false;       // and is late.
  bool coming = false;      // One in time is being made, and not overdue.
  bool time_is_up = false;  // It votes for a round without those that are not ready.
  bool excluded = false;    // Its update or gradient is not finite, and left out.
  bool fault = false;       // It cannot go on; nobody shall.
  // Votes: 0 .. 2^19 - 1, greater ones are cut.
  int64_t plan_ahead = 0;
  int64_t save_ahead = 0;
  int64_t leave_ahead = 0;
  // Its own, medians; 0: not known.
  absl::Duration step;  // Known when its first ones are over (startup_steps.h).
  absl::Duration collective;
  absl::Duration copies;
  bool stretched = false;      // The round before took longer than Window::Patience.
  double squared_update = 0;   // |u|^2 of the update or gradient that it sends.
  std::optional<double> loss;  // Mean of its steps that it has not told of yet. Finite.
  uint64_t hash = 0;           // Of the canonical model; all ranks tell one, or none.
};

// Fields of all ranks together. -1 for a rank: none, or several.
struct RoundSums {
  int64_t steps = 0;
  int active = 0;  // Ranks whose steps are > 0.
  int ready = 0;
  int stale = 0;
  int coming = 0;
  int time_is_up = 0;
  int excluded = 0;
  int excluded_rank = -1;
  int fault = 0;
  int fault_rank = -1;
  // 0: not all tell the same, or nothing new.
  int64_t plan_ahead = 0;
  int64_t save_ahead = 0;
  int64_t leave_ahead = 0;
  int started = 0;            // Ranks that know the time of a step.
  absl::Duration step;        // By their mean speed.
  absl::Duration collective;  // Means, also of those that do not know it.
  absl::Duration copies;
  bool stretched = false;  // For the majority.
  double squared_update = 0;
  std::optional<double> loss;  // Mean of the ranks that told one.
  bool hashes_differ = false;
};

// The numbers of one rank, and the meaning of their sums. Requires: 0 <= rank < ranks <=
// kMaxSlipstreamRanks.
std::vector<double> HeaderNumbers(const RoundHeader& header, int rank);
RoundSums ReadHeaderSums(absl::Span<const double> sums, int ranks);

// To find out whose hash differs each rank tells its own in a place of its own. The result, of the
// sums over all ranks: ranks that differ from the most common hash (of those equally common, the
// one of the lowest rank).
std::vector<double> RollCallNumbers(uint64_t hash, int rank, int ranks);
std::vector<int> RanksThatDiffer(absl::Span<const double> roll_call);

}  // namespace paceline

#endif  // SLIPSTREAM_HEADER_H_
