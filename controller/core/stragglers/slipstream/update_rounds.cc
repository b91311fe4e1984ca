#include "controller/core/stragglers/slipstream/update_rounds.h"

#include <algorithm>

namespace paceline {
namespace {

// Of the copies at step boundaries: two before a round, one after.
constexpr double kCopiesPerRound = 3;
// Windows are shorter at the beginning of a training.
constexpr int64_t kStepsDone = int64_t{1} << 40;

}  // namespace

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

// At the first boundary from then on, with a step at least.
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
  stretched_ = stretched;  // Told with the next header.
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
