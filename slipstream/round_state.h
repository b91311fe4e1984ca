// What all ranks know alike: it is computed from the sums of their headers, and nothing else.
//
// A rank that joins, or was cut off in a round that others have finished, takes it whole from one
// that was not.
//
// Changes that ranks have agreed on (votes, header.h) hold from the next round on. From local
// modes, with work that is not sent yet, to modes of gradients, to the end, or to another
// generation, a settling round lies between: it is made when all ranks have stopped at a step
// boundary, and leaves none of them with work of its own.
//
// A *stop* is a settled round after which all ranks stand still, with x = z, and do together what
// is due: evaluate, save. It is due when the total has passed a multiple of a period, or a save
// order is agreed on; in local modes a settling round makes it.
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
  bool evaluates = false;  // A multiple of the period is passed.
  bool saves = false;
  int64_t save_order = 0;  // Number of the newest agreed on; 0: none.

  bool any() const { return evaluates || saves || save_order > 0; }
  bool operator==(const StopReasons& other) const {
    return evaluates == other.evaluates && saves == other.saves && save_order == other.save_order;
  }
};

struct RoundState {
  RankSteps total{1};        // With the number of ranks.
  int64_t target_steps = 1;  // The training ends when the total has reached so many.
  StopPeriods periods;
  int64_t generation = 1;
  int64_t round = 0;             // Rounds that are finished,
  int64_t round_generation = 0;  // the latest of them in this generation.
  SlipstreamPlan plan;
  std::optional<SlipstreamPlan> next_plan;  // Agreed on; holds when the ranks have settled.
  int64_t save_order = 0;                   // Number of the newest agreed on.
  bool leaves = false;                      // For the next generation; agreed on.
  bool settles = false;                     // The present round is a settling one.
  bool started = false;                     // All ranks' first steps are over.
  StopReasons due;                          // At the next stop, or, if `stands`, at this one.
  bool stands = false;                      // The latest round was a stop.
  Window window;

  int ranks() const { return total.ranks(); }
  bool is_done() const { return total.steps() >= target_steps; }
  // Done, and nothing is unsent: no further round is made, by whichever members.
  bool has_ended() const { return is_done() && !settles; }
};

// What a round came to, besides the sums.
struct RoundOutcome {
  bool takes_up_plan = false;  // RoundState::plan is new.
  bool ends = false;           // No further round: the target is reached, or the generation left.
  bool averages_state = false;
};

// The round with these sums is finished. `told`: the plan that this rank's vote was for.
RoundOutcome FinishRound(const RoundSums& sums, const SlipstreamPlan& told, RoundState* state);

// What a rank with the state `own` has missed of the training, whose most advanced member has
// `theirs`, perhaps already with the numbers of the next generation.
enum class Missed {
  kNothing,
  kItsRound,  // The end of the round that it was in: its part is in the model of the others.
  kMore,      // It trained in an older generation than others since, or has rounds of its own.
};
Missed MissedRounds(const RoundState& own, const RoundState& theirs);

// The same training with other members; nothing is agreed on that concerned the ones before. A stop
// at which they were is made again, since nobody knows whether all had done what was due.
RoundState ForGeneration(RoundState state, int64_t generation, int ranks);

}  // namespace paceline

#endif  // SLIPSTREAM_ROUND_STATE_H_
