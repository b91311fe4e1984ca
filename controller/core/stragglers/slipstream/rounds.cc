#include "controller/core/stragglers/slipstream/rounds.h"

#include <algorithm>

#include "absl/time/time.h"
#include "slipstream/late_gradients.h"
#include "slipstream/quorum.h"
#include "slipstream/rhythm.h"

namespace paceline {
namespace {

// Copies at step boundaries: two before a round, one after.
constexpr double kCopiesPerRound = 3;
// A large number, as windows are shorter at the beginning of a training.
constexpr int64_t kStepsDone = int64_t{1} << 40;

}  // namespace

bool GradientRounds::Rank::IsOffered() const {
  return !late || misses >= LateGradients::kMissesBeforeStale;
}

GradientRounds::GradientRounds(const OwnSteps& steps, const SlipstreamCosts& costs,
                               bool waits_for_all)
    : steps_(steps),
      costs_(costs),
      waits_for_all_(waits_for_all),
      ranks_(static_cast<size_t>(steps.ranks())) {
  for (int rank = 0; rank < steps_.ranks(); ++rank) Begin(rank, 0);
}

void GradientRounds::Begin(int rank, double at_s) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  const OwnStep step = steps_.At(rank, self.begun++);
  self.begin_s = at_s + costs_.pass_s;  // First it loads the model.
  self.frozen_until_s = self.begin_s + step.frozen_s;
  self.end_s = self.begin_s + step.own_s;
  self.late = false;
}

// Drops the rank's gradient. It begins another with the next round if that comes soon, else now.
void GradientRounds::Drop(int rank, double at_s) {
  ++dropped_;
  Rank& self = ranks_[static_cast<size_t>(rank)];
  ++self.misses;
  const double step_s = steps_.typical_s();
  const double grace_s = absl::ToDoubleSeconds(Quorum::Grace(absl::Seconds(step_s)));
  const double since_s = at_s - now_s_;
  const bool waits = !waits_for_all_ && steps_.median_s(rank) <= step_s + grace_s &&
                     grace_s < since_s && since_s < kStepsToARound * step_s;
  Begin(rank, waits ? now_s_ + kStepsToARound * step_s : at_s);
}

void GradientRounds::DropLate(double until_s) {
  for (int rank = 0; rank < steps_.ranks(); ++rank) {
    const Rank& self = ranks_[static_cast<size_t>(rank)];
    if (!self.IsOffered() && self.end_s <= until_s) Drop(rank, self.end_s);
  }
}

double GradientRounds::Join(double at_s) const {
  double last_s = at_s;
  for (const Rank& rank : ranks_) {
    if (rank.begin_s <= at_s) last_s = std::max(last_s, rank.frozen_until_s);
  }
  return last_s;
}

int GradientRounds::ReadyAt(double at_s) const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.IsOffered() && rank.end_s <= at_s;
  }));
}

int GradientRounds::ComingAt(double at_s) const {
  const absl::Duration step = absl::Seconds(steps_.typical_s());
  const double longest_s = absl::ToDoubleSeconds(step + Quorum::Grace(step));
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return !rank.late && rank.begin_s <= at_s && at_s < rank.end_s &&
           at_s < rank.begin_s + longest_s;
  }));
}

GradientRounds::Poll GradientRounds::PollUntilMade() {
  if (waits_for_all_) {
    double last_s = 0;
    for (const Rank& rank : ranks_) last_s = std::max(last_s, rank.end_s);
    return {last_s, last_s + costs_.header_s};
  }
  const absl::Duration step = absl::Seconds(steps_.typical_s());
  const absl::Time start = absl::UnixEpoch();
  Quorum quorum(steps_.ranks());
  Poll poll;
  poll.reported_s = now_s_ + kStepsToFirstPoll * steps_.typical_s();
  while (true) {
    DropLate(poll.reported_s);
    const bool time_is_up = quorum.TimeIsUp(start + absl::Seconds(poll.reported_s), step);
    poll.done_s = Join(poll.reported_s) + costs_.header_s;
    if (quorum.Poll(ReadyAt(poll.reported_s), ComingAt(poll.reported_s),
                    time_is_up ? steps_.ranks() : 0, waits_for_all_,
                    start + absl::Seconds(poll.done_s))) {
      return poll;
    }
    poll.reported_s = poll.done_s + absl::ToDoubleSeconds(Quorum::Pause(step));
  }
}

void GradientRounds::Play() {
  const Poll poll = PollUntilMade();
  now_s_ = Join(poll.done_s + costs_.pass_s) + costs_.reduce_s + costs_.pass_s;
  for (int rank = 0; rank < steps_.ranks(); ++rank) {
    Rank& self = ranks_[static_cast<size_t>(rank)];
    if (self.begin_s > now_s_) {  // It has waited for this round.
      --self.begun;
      Begin(rank, now_s_);
      continue;
    }
    if (self.IsOffered() && self.end_s <= poll.reported_s) {
      ++used_;
      self.misses = 0;
      Begin(rank, now_s_);
      continue;
    }
    if (!self.IsOffered() && self.end_s <= poll.done_s) Drop(rank, self.end_s);
    self.late = true;
    if (!self.IsOffered() && self.end_s <= now_s_) Drop(rank, now_s_);
  }
}

UpdateRounds::UpdateRounds(const OwnSteps& steps, const SlipstreamCosts& costs, bool pauses,
                           const WindowBounds& bounds)
    : steps_(steps),
      costs_(costs),
      bounds_(bounds),
      pauses_(pauses),
      ranks_(static_cast<size_t>(steps.ranks())),
      joined_s_(ranks_.size()) {
  window_.Add({absl::Seconds(steps.typical_s()), absl::Seconds(costs.reduce_s),
               absl::Seconds(kCopiesPerRound * costs.pass_s), false, kStepsDone});
  cap_ = window_.Cap(bounds_);
  next_s_ = absl::ToDoubleSeconds(window_.Length(bounds_));
  for (int rank = 0; rank < steps_.ranks(); ++rank) Begin(rank, 0);
}

void UpdateRounds::Begin(int rank, double at_s) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  const OwnStep step = steps_.At(rank, self.begun++);
  self.frozen_until_s = at_s + step.frozen_s;
  self.end_s = at_s + step.own_s + copies_s_;
  self.waits = false;
}

void UpdateRounds::End(int rank) {
  Rank& self = ranks_[static_cast<size_t>(rank)];
  self.boundary_s = self.end_s;
  ++self.done;
  ++made_;
  self.waits = true;
}

void UpdateRounds::Advance(double until_s) {
  for (int rank = 0; rank < steps_.ranks(); ++rank) {
    const Rank& self = ranks_[static_cast<size_t>(rank)];
    while (!self.waits && self.end_s <= until_s) {
      End(rank);
      if (self.done - self.done_at_finish < cap_) Begin(rank, self.boundary_s);
    }
  }
}

double UpdateRounds::Join(double at_s) {
  Advance(at_s);
  double last_s = at_s;
  for (const Rank& rank : ranks_) {
    if (!rank.waits) last_s = std::max(last_s, rank.frozen_until_s);
  }
  return last_s;
}

// Each rank stops at its first boundary from then on, after at least one step.
void UpdateRounds::StopAll(double from_s) {
  Advance(from_s);
  for (int rank = 0; rank < steps_.ranks(); ++rank) {
    const Rank& self = ranks_[static_cast<size_t>(rank)];
    if (!self.waits) End(rank);
    joined_s_[static_cast<size_t>(rank)] = std::max(from_s, self.boundary_s);
  }
}

bool UpdateRounds::IsStretched(double reduced_s) const {
  const double patience_s = absl::ToDoubleSeconds(window_.Patience());
  const auto longer = std::count_if(joined_s_.begin(), joined_s_.end(), [&](double joined_s) {
    return reduced_s - joined_s > patience_s;
  });
  return 2 * longer > steps_.ranks();
}

void UpdateRounds::Play() {
  const double began_s = std::max(next_s_, now_s_);
  double header_s = 0;
  if (pauses_) {
    StopAll(began_s);
    header_s = *std::max_element(joined_s_.begin(), joined_s_.end());
  } else {
    header_s = Join(began_s);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const bool frozen = !ranks_[rank].waits && ranks_[rank].frozen_until_s > began_s;
      joined_s_[rank] = frozen ? ranks_[rank].frozen_until_s : began_s;
    }
  }
  header_s += costs_.pass_s + costs_.header_s;
  const double reduced_s = (pauses_ ? header_s : Join(header_s)) + costs_.reduce_s;
  now_s_ = reduced_s + costs_.pass_s;
  if (!pauses_) Advance(now_s_);

  const bool stretched = IsStretched(reduced_s);
  collective_.Add(absl::Seconds(reduced_s - header_s));
  window_.Add({absl::Seconds(steps_.typical_s()), collective_.median(),
               absl::Seconds(kCopiesPerRound * costs_.pass_s), stretched_, kStepsDone});
  stretched_ = stretched;  // The next header reports it.
  const double window_s = absl::ToDoubleSeconds(window_.Length(bounds_));
  window_steps_ = window_s / steps_.typical_s();
  next_s_ = header_s + window_s;
  cap_ = window_.Cap(bounds_);
  copies_s_ = costs_.pass_s * std::min(1.0, kCopiesPerRound / window_steps_);
  for (int rank = 0; rank < steps_.ranks(); ++rank) {
    Rank& self = ranks_[static_cast<size_t>(rank)];
    self.done_at_finish = self.done;
    if (self.waits) Begin(rank, now_s_);
  }
}

}  // namespace paceline
