// What ranks tell each other at the beginning of a round: numbers that are summed over all ranks.
//
// All numbers are doubles. Counts and votes are integers whose sums are exact; ranks that see the
// same sums decide the same.
//
// A vote says how far the newest thing that a rank is ready for (plan, save order, generation) is
// ahead of what is in force on all ranks. Its square is summed, too: all ranks vote the same if N *
// sum of squares = (sum)^2 (Cauchy-Schwarz). A hash travels likewise, in two parts.
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

// How many bits of a hash are compared.
constexpr int kHashBits = 38;

// The header of one rank.
struct RoundHeader {
  int64_t steps = 0;        // Rank-steps in the update that it sends in this round.
  bool ready = false;       // Its gradient may be used,
  bool stale = false;       // and comes late.
  bool coming = false;      // A gradient in time is being made, and is not overdue.
  bool time_is_up = false;  // It votes for a round without those that are not ready.
  bool excluded = false;    // Its update or gradient is not finite, and is left out.
  bool fault = false;       // It cannot go on, and so nobody shall.
  // Votes from 0 to 2^19 - 1; greater ones are cut off.
  int64_t plan_ahead = 0;
  int64_t save_ahead = 0;
  int64_t leave_ahead = 0;
  // The rank's own medians; 0: not known.
  absl::Duration step;  // Known after its first steps (startup_steps.h).
  absl::Duration collective;
  absl::Duration copies;
  bool stretched = false;      // The last round took longer than Window::Patience.
  double squared_update = 0;   // |u|^2 of the update or gradient that it sends.
  std::optional<double> loss;  // Mean of steps not yet reported; finite.
  uint64_t hash = 0;           // Of the canonical model; all ranks send one, or none.
};

// The headers of all ranks together. A rank of -1: none, or several.
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
  // 0: not all ranks vote the same, or there is nothing new.
  int64_t plan_ahead = 0;
  int64_t save_ahead = 0;
  int64_t leave_ahead = 0;
  int started = 0;            // Ranks that know how long a step takes.
  absl::Duration step;        // By their mean speed.
  absl::Duration collective;  // Means, counting ranks that do not know theirs.
  absl::Duration copies;
  bool stretched = false;  // For a majority.
  double squared_update = 0;
  std::optional<double> loss;  // Mean over the ranks that sent one.
  bool hashes_differ = false;
};

// The numbers of one rank, and what the sums of them mean. Requires: 0 <= rank < ranks <=
// kMaxSlipstreamRanks.
std::vector<double> HeaderNumbers(const RoundHeader& header, int rank);
RoundSums ReadHeaderSums(absl::Span<const double> sums, int ranks);

// Finds out whose hash differs: each rank fills in its own in its own place. From the sums over all
// ranks follow the ranks that differ from the most common hash (if several are, from the one of the
// lowest rank).
std::vector<double> RollCallNumbers(uint64_t hash, int rank, int ranks);
std::vector<int> RanksThatDiffer(absl::Span<const double> roll_call);

}  // namespace paceline

#endif  // SLIPSTREAM_HEADER_H_
