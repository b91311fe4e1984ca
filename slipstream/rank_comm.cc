// The communication thread's side of a rank: rounds.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "slipstream/rank.h"
#include "slipstream/rhythm.h"

namespace paceline {
namespace {

constexpr int64_t kRoundsPerHash = 32;

}  // namespace

using Kind = CommOrder::Kind;
using Fill = CommOrder::Fill;

CommOrder SlipstreamRank::Begin(Phase phase, Kind kind) {
  phase_ = phase;
  CommOrder order;
  order.kind = kind;
  order.payload = payload_;
  return order;
}

// Nothing: the round or the next poll is due.
std::optional<absl::Time> SlipstreamRank::WaitsUntil(absl::Time now) const {
  if (fault_) return copying_ ? std::make_optional(absl::InfiniteFuture()) : std::nullopt;
  const bool comes_at_its_time = !local() || !state_.settles;
  if (comes_at_its_time && now < next_at_) return next_at_;
  if (!local()) {
    // If all ranks are awaited, one that is not ready has nothing to say.
    const bool waits = state_.plan.mode == SlipstreamMode::kSync && !offered_;
    return waits ? std::make_optional(absl::InfiniteFuture()) : std::nullopt;
  }
  const bool all_stop = state_.settles || state_.plan.mode == SlipstreamMode::kPause;
  if (copying_ || (all_stop && !HasStopped())) return absl::InfiniteFuture();
  return std::nullopt;
}

CommOrder SlipstreamRank::NextComm(absl::Time now) {
  CommOrder wait;
  switch (phase_) {
    case Phase::kIdle:
      if (!hash_ && state_.round > 0 && state_.round % kRoundsPerHash == 0) {
        return Begin(Phase::kHashing, Kind::kHash);
      }
      if (const auto until = WaitsUntil(now)) {
        wait.until = *until;
        return wait;
      }
      return BeginRound(now);
    case Phase::kFilled:
      round_began_ = now;
      return Begin(Phase::kExchanging, Kind::kExchange);
    case Phase::kDecided: {
      CommOrder order = Begin(Phase::kFilling, Kind::kFill);
      order.fill = included_ ? Fill::kGradient : Fill::kZeros;
      return order;
    }
    case Phase::kToReduce:
      reduce_began_ = now;
      return Begin(Phase::kReducing, Kind::kReduce);
    case Phase::kReduced:
      if (copying_) return wait;
      return Begin(Phase::kApplying, Kind::kApply);
    case Phase::kRollCall:
      return Begin(Phase::kRollCall, Kind::kExchange);
    case Phase::kHashing:
    case Phase::kFilling:
    case Phase::kExchanging:
    case Phase::kReducing:
    case Phase::kApplying:
    case Phase::kStopped:
      return wait;  // It waits for what is being done at the stop.
    case Phase::kEnded:
      break;
  }
  return Begin(Phase::kEnded, Kind::kEnd);
}

CommOrder SlipstreamRank::BeginRound(absl::Time now) {
  round_began_ = now;
  const bool has_work = published_ > finished_ || is_settling_rest();
  if (!local() || !has_work || needs_reset_ || fault_) {
    return Begin(Phase::kExchanging, Kind::kExchange);
  }
  std::swap(buffers_.pub, buffers_.sent);
  pub_is_x_ = false;
  has_sent_ = true;
  in_flight_ = published_ - finished_;
  in_flight_version_ = ref_version_;
  CommOrder order = Begin(Phase::kFilling, Kind::kFill);
  order.fill = Fill::kUpdate;
  return order;
}

void SlipstreamRank::OnHashed(uint64_t hash) {
  hash_ = hash;
  phase_ = Phase::kIdle;
}

void SlipstreamRank::OnFilled(double squared) {
  if (payload_.model > 0) {  // The header has been exchanged.
    phase_ = Phase::kToReduce;
    return;
  }
  phase_ = Phase::kFilled;
  squared_update_ = squared;
  filled_ = std::isfinite(squared);
  if (filled_) return;
  has_sent_ = false;
  in_flight_ = 0;
  squared_update_ = 0;
  if (options_.stops_at_bad_update) {
    SetFault("its update is not finite");
  } else {
    excluded_ = needs_reset_ = resets_optimizer_ = true;
  }
}

bool SlipstreamRank::IsComing(absl::Time now) const {
  if (local() || !computing_ || gradient_version_ != version_) return false;
  const absl::Duration step = state_.window.step();
  return step == absl::ZeroDuration() || now - step_began_ < step + Quorum::Grace(step);
}

std::vector<double> SlipstreamRank::Numbers(absl::Time now) {
  if (phase_ == Phase::kRollCall) {
    return RollCallNumbers(hash_.value_or(0), options_.rank, state_.ranks());
  }
  reported_ready_ = offered_;
  reported_excluded_ = excluded_;
  reported_plan_ = newest_plan_;
  reported_losses_.sum += losses_.sum;
  reported_losses_.count += losses_.count;
  losses_ = Losses();
  RoundHeader header;
  header.ready = offered_;
  header.stale = offered_ && gradient_version_ != version_;
  header.coming = IsComing(now);
  header.steps = local() ? in_flight_ : offered_ ? 1 : 0;
  header.squared_update = local() ? squared_update_ : offered_ ? squared_gradient_ : 0;
  header.time_is_up = !local() && quorum_.TimeIsUp(now, state_.window.step());
  header.excluded = excluded_;
  header.fault = fault_;
  header.plan_ahead = newest_plan_.version - state_.plan.version;
  header.save_ahead = save_order_ - state_.save_order;
  header.leave_ahead = next_generation_ - state_.generation;
  header.step = step_.median();
  header.collective = collective_.median();
  header.copies = copies_.median();
  header.stretched = stretched_;
  if (reported_losses_.count > 0) {
    header.loss = reported_losses_.sum / static_cast<double>(reported_losses_.count);
  }
  header.hash = hash_.value_or(0);
  return HeaderNumbers(header, options_.rank);
}

void SlipstreamRank::EndWith(const std::string& what, std::vector<int> ranks) {
  phase_ = Phase::kEnded;
  fault_ranks_ = std::move(ranks);
  fault_text_ = absl::StrCat("round ", state_.round + 1, ": ", what);
}

void SlipstreamRank::OnExchanged(absl::Span<const double> sums, absl::Time now) {
  if (phase_ == Phase::kRollCall) {
    std::vector<int> ranks = RanksThatDiffer(sums);
    EndWith(absl::StrCat("the models of ranks ", absl::StrJoin(ranks, ", "),
                         " differ from that of the others"),
            ranks);
    models_differ_ = true;
    return;
  }
  sums_ = ReadHeaderSums(sums, state_.ranks());
  if (sums_.fault > 0) {
    const bool named = sums_.fault_rank >= 0;
    std::string what = named ? absl::StrCat("rank ", sums_.fault_rank, " cannot go on")
                             : absl::StrCat(sums_.fault, " ranks cannot go on");
    if (fault_) absl::StrAppend(&what, "; rank ", options_.rank, ": ", fault_reason_);
    std::vector<int> ranks;
    if (named) {
      ranks.push_back(sums_.fault_rank);
    } else if (fault_) {
      ranks.push_back(options_.rank);
    }
    EndWith(what, std::move(ranks));
    return;
  }
  if (sums_.hashes_differ) {
    phase_ = Phase::kRollCall;
    return;
  }
  if (!local() && !quorum_.Poll(sums_.ready, sums_.coming, sums_.time_is_up,
                                state_.plan.mode == SlipstreamMode::kSync, now)) {
    phase_ = Phase::kIdle;
    next_at_ = now + Quorum::Pause(state_.window.step());
    return;
  }
  Decide(now);
}

void SlipstreamRank::Decide(absl::Time now) {
  next_state_ = state_;
  outcome_ = FinishRound(sums_, reported_plan_, &next_state_);
  payload_ = CommOrder::Payload();
  const bool has_rests = local() && sums_.squared_update > 0;
  if (sums_.steps > 0 || has_rests) payload_.model = local() ? state_.ranks() : sums_.active;
  const bool is_exact = state_.settles || next_state_.stands || outcome_.ends ||
                        outcome_.takes_up_plan || !options_.lossy_updates;
  payload_.lossy = local() && payload_.model > 0 && !is_exact;
  payload_.has_update = has_sent_;
  if (outcome_.averages_state) {  // The state from a bad update would spoil all others.
    payload_.state = sums_.active > 0 ? sums_.active : state_.ranks() - sums_.excluded;
    payload_.has_state = sums_.active > 0 ? in_flight_ > 0 : !reported_excluded_;
  }
  stretched_ = IsStretched(now);  // So far.
  included_ = !local() && reported_ready_;
  if (reported_excluded_) excluded_ = false;
  reported_losses_ = Losses();
  // The same moment on all ranks, whatever their clocks say.
  next_at_ = now + next_state_.window.Length(next_state_.plan.window);
  if (payload_.model > 0) {
    phase_ = filled_ ? Phase::kToReduce : Phase::kDecided;
  } else {
    phase_ = payload_.state > 0 ? Phase::kToReduce : Phase::kReduced;
  }
}

void SlipstreamRank::OnReduced(absl::Time now) {
  phase_ = Phase::kReduced;
  collective_.Add(now - reduce_began_);
  stretched_ = IsStretched(now);
}

// When they settle, or come back from a stop, ranks wait for each other, and nothing is stretched.
bool SlipstreamRank::IsStretched(absl::Time now) const {
  if (!local() || state_.settles || after_stop_) return false;
  return now - round_began_ > state_.window.Patience();
}

// The update that was in flight is now part of z.
void SlipstreamRank::TakeSent() {
  if (!has_sent_) return;
  std::swap(buffers_.ref, buffers_.sent);
  has_sent_ = has_rest_ = false;
  if (in_flight_ == 0) return;
  ++contributions_;
  stale_rounds_ += version_ - in_flight_version_;
  finished_ += in_flight_;
  sent_updates_ += in_flight_;
  in_flight_ = 0;
}

void SlipstreamRank::SetGradientUsed() {
  offered_ = false;
  late_.SetUsed();
  ++used_gradients_;
  ++contributions_;
  stale_rounds_ += version_ - gradient_version_;
}

RoundOutcome SlipstreamRank::OnApplied(absl::Time now) {
  const bool was_local = local();
  TakeSent();
  has_rest_ |= payload_.lossy;
  if (included_) SetGradientUsed();
  if (payload_.model > 0) ++version_;
  if (payload_.state > 0) resets_optimizer_ = false;  // It now has the others' state.
  version_since_ = now;
  state_ = next_state_;
  if (!was_local && local()) {
    ++update_periods_;
    needs_reset_ = true;
    if (std::exchange(offered_, false)) late_.SetDropped();
  }
  if (offered_) ReviewGradient();
  if (copies_in_round_ > absl::ZeroDuration()) copies_.Add(copies_in_round_);
  copies_in_round_ = absl::ZeroDuration();
  updates_at_finish_ = updates_;
  if (!local()) next_at_ = NextRoundAt(now);
  after_stop_ = false;
  payload_ = CommOrder::Payload();
  squared_update_ = 0;
  included_ = filled_ = step_dropped_ = false;
  hash_.reset();
  phase_ = outcome_.ends ? Phase::kEnded : state_.stands ? Phase::kStopped : Phase::kIdle;
  return outcome_;
}

// When this round begins, or the ranks are first asked whether it can.
absl::Time SlipstreamRank::NextRoundAt(absl::Time now) const {
  switch (state_.plan.mode) {
    case SlipstreamMode::kSync:
      return now;
    case SlipstreamMode::kDrop:
      return now + kStepsToFirstPoll * state_.window.step();
    case SlipstreamMode::kFree:
    case SlipstreamMode::kPause:
      break;
  }
  return now + state_.window.Length(state_.plan.window);
}

void SlipstreamRank::OnStopped(absl::Time now) {
  phase_ = Phase::kIdle;
  version_since_ = now;
  next_at_ = NextRoundAt(now);
  after_stop_ = true;
}

}  // namespace paceline
