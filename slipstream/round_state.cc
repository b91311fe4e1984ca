#include "slipstream/round_state.h"

#include <utility>

namespace paceline {
namespace {

bool NeedsSettling(const SlipstreamPlan& from, const SlipstreamPlan& to) {
  return IsLocal(from.mode) && !IsLocal(to.mode);
}

// Whether something was agreed on that waits for the ranks to settle.
bool HasToSettle(const RoundState& state) {
  return IsLocal(state.plan.mode) &&
         (state.next_plan.has_value() || state.leaves || state.is_done() || state.due.any());
}

bool PassesMultiple(int64_t period, int64_t before, int64_t now) {
  return period > 0 && now / period > before / period;
}

}  // namespace

RoundOutcome FinishRound(const RoundSums& sums, const SlipstreamPlan& reported, RoundState* state) {
  RoundOutcome outcome;
  if (std::exchange(state->stands, false)) state->due = StopReasons();
  const int64_t steps_before = state->total.steps();
  ++state->round;
  state->round_generation = state->generation;
  state->total.Add(sums.steps);
  state->window.Add(
      {sums.step, sums.collective, sums.copies, sums.stretched, state->total.steps()});
  if (sums.started == state->ranks()) state->started = true;
  if (sums.plan_ahead > 0) state->next_plan = reported;
  if (sums.leave_ahead > 0) state->leaves = true;
  if (sums.save_ahead > 0) state->due.save_order = state->save_order += sums.save_ahead;
  const int64_t steps = state->total.steps();
  state->due.evaluates |= PassesMultiple(state->periods.evaluation, steps_before, steps);
  state->due.saves |= PassesMultiple(state->periods.save, steps_before, steps);

  const bool settled = state->settles || state->plan.mode != SlipstreamMode::kFree;
  outcome.averages_state = state->plan.averages_state && state->plan.mode == SlipstreamMode::kPause;
  if (state->next_plan && (settled || !NeedsSettling(state->plan, *state->next_plan))) {
    outcome.averages_state |= NeedsSettling(state->plan, *state->next_plan);
    state->plan = *state->next_plan;
    state->next_plan.reset();
    outcome.takes_up_plan = true;
  }
  outcome.ends = settled && (state->leaves || state->is_done());
  state->stands = settled && !outcome.ends && state->due.any();
  state->settles = !outcome.ends && !state->stands && HasToSettle(*state);
  return outcome;
}

Missed MissedRounds(const RoundState& own, const RoundState& theirs) {
  // A round is known by its number and generation, and all members of the generation were in it.
  if (theirs.round == own.round && theirs.round_generation == own.round_generation) {
    return Missed::kNothing;
  }
  const bool was_in_it = theirs.round == own.round + 1 && theirs.round_generation == own.generation;
  return was_in_it ? Missed::kItsRound : Missed::kMore;
}

RoundState ForGeneration(RoundState state, int64_t generation, int ranks) {
  const bool ended = state.has_ended();
  state.total = state.total.WithRanks(ranks);
  state.generation = generation;
  state.leaves = state.stands = false;
  state.window = Window();
  state.settles = !ended && HasToSettle(state);
  return state;
}

}  // namespace paceline
