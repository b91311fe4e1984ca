#include "slipstream/rank.h"

#include <algorithm>
#include <utility>

namespace paceline {

SlipstreamRank::SlipstreamRank(const Options& options, const RoundState& state, absl::Time now)
    : options_(options),
      state_(state),
      version_since_(now),
      step_began_(now),
      next_at_(now),
      round_began_(now),
      reduce_began_(now),
      quorum_(state.ranks()),
      next_state_(state),
      newest_plan_(state.plan),
      reported_plan_(state.plan),
      save_order_(state.save_order),
      next_generation_(state.generation) {
  // Neither ref nor x is z yet.
  needs_reset_ = true;
  x_version_ = -1;
  update_periods_ = local() ? 1 : 0;
  if (state_.has_ended()) phase_ = Phase::kEnded;
}

void SlipstreamRank::Prepare(const SlipstreamPlan& plan) {
  if (plan.version > newest_plan_.version) newest_plan_ = plan;
}

void SlipstreamRank::OrderSave(int64_t number) { save_order_ = std::max(save_order_, number); }

void SlipstreamRank::ReadyToLeave(int64_t generation) {
  next_generation_ = std::max(next_generation_, generation);
}

void SlipstreamRank::SetFault(const std::string& reason) {
  if (std::exchange(fault_, true)) return;
  fault_reason_ = reason;
}

int64_t SlipstreamRank::schedule_step() const {
  return std::min(state_.total.steps(), state_.target_steps - 1);
}

void SlipstreamRank::DropStep() {
  if (std::exchange(computing_, false)) step_dropped_ = true;
}

void SlipstreamRank::Rejoin(int rank, const RoundState& theirs, absl::Time now) {
  const Missed missed = MissedRounds(state_, theirs);
  if (missed == Missed::kItsRound) {
    TakeSent();
    if (reported_ready_ && offered_) SetGradientUsed();
  } else if (missed == Missed::kMore) {
    needs_reset_ = true;
  }
  if (missed != Missed::kNothing) ++version_;
  // What was in flight is unsent again, as ref has not moved. pub became `sent`: make it anew.
  has_sent_ = false;
  in_flight_ = 0;
  published_ = finished_;
  const bool was_local = local();
  state_ = theirs;
  if (!was_local && local()) needs_reset_ = true;
  update_periods_ = local() ? 1 : 0;
  if (local()) {
    offered_ = false;
  } else if (offered_) {
    ReviewGradient();
  }
  options_.rank = rank;
  phase_ = state_.has_ended() ? Phase::kEnded : Phase::kIdle;
  version_since_ = now;
  sums_ = RoundSums();
  next_at_ = now + state_.window.Length(state_.plan.window);
  after_stop_ = false;
  updates_at_finish_ = updates_;
  quorum_ = Quorum(state_.ranks());
  payload_ = CommOrder::Payload();
  included_ = filled_ = reported_ready_ = reported_excluded_ = stretched_ = step_dropped_ = false;
  squared_update_ = 0;
  hash_.reset();
  next_generation_ = state_.generation;
  if (newest_plan_.version < state_.plan.version) newest_plan_ = state_.plan;
}

}  // namespace paceline
