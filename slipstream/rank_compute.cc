// The compute thread's side of a rank.
#include <cmath>

#include "slipstream/rank.h"
#include "slipstream/rhythm.h"

namespace paceline {

using Kind = ComputeOrder::Kind;

ComputeOrder SlipstreamRank::NextCompute(absl::Time now) {
  // At a stop the others need a faulty rank, too.
  if (fault_ && !stands()) return {Kind::kWait, {}, ComputeOrder::Wait::kRound};
  return local() ? NextLocal(now) : NextGradient(now);
}

ComputeOrder SlipstreamRank::Copy(ComputeOrder::Copy copy) {
  copying_ = true;
  copy_ = copy;
  return {Kind::kCopy, copy, {}};
}

// Whether all ranks stop at a step boundary for the present round.
bool SlipstreamRank::Stops(absl::Time now) const {
  if (state_.settles || stands()) return true;
  if (state_.plan.mode != SlipstreamMode::kPause) return false;
  return !is_between_rounds() || (now >= next_at_ && may_pause());
}

bool SlipstreamRank::HasStopped() const {
  return !computing_ && !copying_ && !needs_reset_ && updates_ == published_ &&
         (!is_settling_rest() || pub_is_x_) && (state_.settles || may_pause());
}

// False for a copy that the next step boundary would make again before a round needs it.
bool SlipstreamRank::PublishIsDue(absl::Time now) const {
  const absl::Duration two_steps = 2 * step_.median();
  if (two_steps == absl::ZeroDuration()) return true;
  return is_between_rounds() ? now + two_steps >= next_at_
                             : two_steps >= state_.window.Length(state_.plan.window);
}

ComputeOrder SlipstreamRank::NextLocal(absl::Time now) {
  if (needs_reset_) {
    if (uses_buffers()) return {Kind::kWait, {}, ComputeOrder::Wait::kPass};
    ComputeOrder order = Copy(ComputeOrder::Copy::kReset);
    order.resets_optimizer = resets_optimizer_;
    return order;
  }
  if (version_ > ref_version_ && !uses_buffers()) {
    return Copy(has_sent_ ? ComputeOrder::Copy::kRebaseInFlight : ComputeOrder::Copy::kRebase);
  }
  const bool stops = Stops(now);
  const bool is_ahead = updates_ - updates_at_finish_ >= state_.window.Cap(state_.plan.window);
  const bool has_work = updates_ > published_ || (is_settling_rest() && !pub_is_x_);
  if (has_work && (stops || is_ahead || PublishIsDue(now))) {
    return Copy(ComputeOrder::Copy::kPublish);
  }
  if (stands()) return {phase_ == Phase::kEnded ? Kind::kEnd : Kind::kStop, {}, {}};
  if (stops) return {Kind::kWait, {}, ComputeOrder::Wait::kRound};
  if (is_ahead) return {Kind::kWait, {}, ComputeOrder::Wait::kCap};
  computing_ = true;
  return {Kind::kUpdate, {}, {}};
}

// A rank that comes back from a stall in the middle of a round would be late in this one and, as
// its steps would begin in the middle, in all later ones. So it begins with the next round if
// others are about to make it. A rank that is slower than the others is late in any case.
bool SlipstreamRank::WaitsForTheOthers(absl::Time now) const {
  if (state_.plan.mode != SlipstreamMode::kDrop) return false;
  const absl::Duration step = state_.window.step();
  const absl::Duration grace = Quorum::Grace(step);
  const absl::Duration since = now - version_since_;
  return step_.median() <= step + grace && grace < since && since < kStepsToARound * step &&
         quorum_.IsMajority(sums_.ready + sums_.coming);
}

ComputeOrder SlipstreamRank::NextGradient(absl::Time now) {
  // A gradient made with a model that is about to change would be late.
  if (!stands() && (offered_ || is_decided())) {
    return {Kind::kWait, {}, ComputeOrder::Wait::kRound};
  }
  if (x_version_ != version_) {
    if (!stands() && WaitsForTheOthers(now)) return {Kind::kWait, {}, ComputeOrder::Wait::kRound};
    return Copy(ComputeOrder::Copy::kLoad);
  }
  if (stands()) return {phase_ == Phase::kEnded ? Kind::kEnd : Kind::kStop, {}, {}};
  computing_ = true;
  step_began_ = now;
  gradient_version_ = x_version_;
  return {Kind::kGradient, {}, {}};
}

void SlipstreamRank::OnCopied(absl::Duration took) {
  copying_ = false;
  copies_in_round_ += took;
  switch (copy_) {
    case ComputeOrder::Copy::kPublish:
      published_ = updates_;
      pub_is_x_ = true;
      break;
    case ComputeOrder::Copy::kRebase:
    case ComputeOrder::Copy::kRebaseInFlight:
      published_ = updates_;
      pub_is_x_ = true;
      ref_version_ = version_;
      break;
    case ComputeOrder::Copy::kReset:
      lost_updates_ += updates_ - finished_;
      published_ = finished_ = updates_;
      ref_version_ = version_;
      needs_reset_ = resets_optimizer_ = has_rest_ = pub_is_x_ = false;
      break;
    case ComputeOrder::Copy::kLoad:
      x_version_ = version_;
      break;
  }
}

void SlipstreamRank::AddStep(absl::Duration took, double loss) {
  if (++steps_ > options_.startup_steps) step_.Add(took);
  if (!std::isfinite(loss)) return;
  losses_.sum += loss;
  ++losses_.count;
}

void SlipstreamRank::OnStepped(absl::Duration took, double loss) {
  computing_ = step_dropped_ = false;
  ++updates_;
  AddStep(took, loss);
}

void SlipstreamRank::OnGradient(double squared, absl::Duration took, double loss) {
  computing_ = false;
  AddStep(took, loss);
  if (local()) {  // The mode has changed since it was begun.
    late_.SetDropped();
  } else if (!std::isfinite(squared)) {
    late_.SetDropped();
    if (options_.stops_at_bad_update) {
      SetFault("its gradient is not finite");
    } else {
      excluded_ = true;
      x_version_ = -1;  // The model's running statistics are no better.
    }
  } else {
    offered_ = true;
    squared_gradient_ = squared;
    if (!is_decided()) ReviewGradient();
  }
}

void SlipstreamRank::ReviewGradient() {
  offered_ = late_.Offer(gradient_version_, version_, state_.plan.mode == SlipstreamMode::kDrop);
}

}  // namespace paceline
