// What all ranks know alike, as it is computed only from the sums of their headers.
//
// A rank that joins, or was cut off in a round that others have finished, takes the whole state
// from one that was not.
//
// Changes that ranks have agreed on (votes, header.h) hold from the next round on. Local modes have
// work that is not sent yet. So before modes of gradients, the end, or another generation there is
// a settling round: it is made when all ranks have stopped at a step boundary, and leaves none of
// them with work of its own.
//
// A *stop* is a settled round after which all ranks stand still, with x = z, and do together what
// is due: evaluate, save. It is due when the total has passed a multiple of a period, or a save
// order was agreed on. In local modes a settling round leads to it.
//
// Pure.
#ifndef SLIPSTREAM_ROUND_STATE_H_
#define SLIPSTREAM_ROUND_STATE_H_

#include <cstdint>
#include <optional>

#include "slipstream/header.h"
#include "slipstream/plan.h"
#include "slipstream/rank_steps.h"
#include "slipstream/window.h"

namespace paceline {

// In steps; 0: never.
struct StopPeriods {
  int64_t evaluation = 0;
  int64_t save = 0;
};

// What is to be done at a stop.
struct StopReasons {
  bool evaluates = false;  // The total has passed a multiple of the period.
  bool saves = false;
  int64_t save_order = 0;  // Number of the newest one agreed on; 0: none.

  bool any() const { return evaluates || saves || save_order > 0; }
  bool operator==(const StopReasons& other) const {
    return evaluates == other.evaluates && saves == other.saves && save_order == other.save_order;
  }
};

struct RoundState {
  RankSteps total{1};        // Includes the number of ranks.
  int64_t target_steps = 1;  // The training ends when the total reaches this.
  StopPeriods periods;
  int64_t generation = 1;
  int64_t round = 0;             // Rounds that are finished,
  int64_t round_generation = 0;  // and the generation of the latest one.
  SlipstreamPlan plan;
  std::optional<SlipstreamPlan> next_plan;  // Agreed on; holds once the ranks have settled.
  int64_t save_order = 0;                   // Number of the newest one agreed on.
  bool leaves = false;                      // Agreed on: they leave for the next generation.
  bool settles = false;                     // The present round is a settling one.
  bool started = false;                     // All ranks' first steps are over.
  StopReasons due;                          // At the next stop or, if `stands`, at this one.
  bool stands = false;                      // The latest round was a stop.
  Window window;

  int ranks() const { return total.ranks(); }
  bool is_done() const { return total.steps() >= target_steps; }
  // Whether it is done and nothing is unsent, so that no members make another round.
  bool has_ended() const { return is_done() && !settles; }
};

// The result of a round, besides the sums.
struct RoundOutcome {
  bool takes_up_plan = false;  // RoundState::plan is new.
  bool ends = false;           // No further round: the target is reached, or the generation left.
  bool averages_state = false;
};

// Finishes the round with these sums. `reported`: the plan that this rank voted for.
RoundOutcome FinishRound(const RoundSums& sums, const SlipstreamPlan& reported, RoundState* state);

// What a rank with the state `own` has missed of the training whose most advanced member has
// `theirs`, perhaps already with the numbers of the next generation.
enum class Missed {
  kNothing,
  kItsRound,  // The end of its round: its part is in the others' model.
  kMore,      // Others trained since in a newer generation, or it has rounds of its own.
};
Missed MissedRounds(const RoundState& own, const RoundState& theirs);

// The same training with other members; what was agreed on for the old ones is dropped. A stop at
// which they were is made again, as nobody knows whether all had done what was due.
RoundState ForGeneration(RoundState state, int64_t generation, int ranks);

}  // namespace paceline

#endif  // SLIPSTREAM_ROUND_STATE_H_
