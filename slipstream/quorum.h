// When a round of gradients is made: from what all ranks saw in a poll, so that all decide the
// same.
//
// `sync`: when all are ready. `drop`: when the majority is, and either nobody else is coming, or
// the majority votes that a tenth of a step has passed since it saw the former. A rank is coming
// while its gradient, begun at the present model, takes at most a tenth longer than a step: so a
// stall is waited for once, and not in the rounds until it is over. Time is each rank's own; one
// clock that is wrong is outvoted.
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

  // Whether this rank votes for a round now. `step`: the ranks' time of a step; 0: not known.
  bool TimeIsUp(absl::Time now, absl::Duration step) const;

  // A poll showed these numbers of ranks. True: the round is made with those that are ready.
  // `waits_for_all`: sync.
  bool Poll(int ready, int coming, int time_is_up, bool waits_for_all, absl::Time now);

  // How long a majority waits for those that are coming.
  static absl::Duration Grace(absl::Duration step);

  bool IsMajority(int count) const { return 2 * count > ranks_; }

  // Until the next poll, so that few are made and a round is late by little.
  static absl::Duration Pause(absl::Duration step);

 private:
  int ranks_;
  std::optional<absl::Time> majority_since_;  // Seen in a poll of the present round.
};

}  // namespace paceline

#endif  // SLIPSTREAM_QUORUM_H_
