// When a round of gradients is made. This follows from what all ranks saw in a poll, so that all
// decide the same.
//
// `sync`: when all are ready. `drop`: when a majority is, and either nobody else is coming, or a
// majority votes that a tenth of a step has passed since it first saw a majority ready. A rank is
// coming while its gradient, begun with the present model, takes at most a tenth longer than a
// step. So the ranks wait once for a stall, and not in each round until it is over. Time is each
// rank's own; one clock that is wrong is outvoted.
//
// Thread-compatible.
#ifndef SLIPSTREAM_QUORUM_H_
#define SLIPSTREAM_QUORUM_H_

#include <optional>

#include "absl/time/time.h"

namespace paceline {

class Quorum {
 public:
  explicit Quorum(int ranks) : ranks_(ranks) {}

  // Whether this rank now votes for a round. `step`: the ranks' time of a step; 0: not known.
  bool TimeIsUp(absl::Time now, absl::Duration step) const;

  // Takes in how many ranks a poll found. True: make the round with those that are ready.
  // `waits_for_all`: for sync.
  bool Poll(int ready, int coming, int time_is_up, bool waits_for_all, absl::Time now);

  // How long a majority waits for those that are coming.
  static absl::Duration Grace(absl::Duration step);

  bool IsMajority(int count) const { return 2 * count > ranks_; }

  // Time until the next poll, so that there are few polls and a round is only a little late.
  static absl::Duration Pause(absl::Duration step);

 private:
  int ranks_;
  std::optional<absl::Time> majority_since_;  // Since a poll of the present round found one.
};

}  // namespace paceline

#endif  // SLIPSTREAM_QUORUM_H_
