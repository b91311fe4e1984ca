#include "controller/core/steps/step_assembler.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace paceline {
namespace {

constexpr int64_t kNoStep = std::numeric_limits<int64_t>::min();
constexpr int kPatienceSteps = 32;
constexpr int kHardlyAny = 8;  // One of so many ranks; of fewer ranks one.
constexpr double kLateRate = 1.0 / 32;
constexpr double kOftenLate = 0.25;

}  // namespace

StepAssembler::StepAssembler(int ranks, int open_steps, int few)
    : ranks_(ranks),
      open_steps_(open_steps),
      few_(few),
      present_(static_cast<size_t>(ranks) * static_cast<size_t>(open_steps)),
      progress_(static_cast<size_t>(ranks), RankProgress{kNoStep, kNoStep, 0, 0}),
      patience_(open_steps),
      removed_(kNoStep) {
  open_.reserve(static_cast<size_t>(open_steps));
  for (int slot = 0; slot < open_steps; ++slot) free_.push_back(slot);
}

bool StepAssembler::NeedsRoom(int rank, int64_t step) const {
  if (!free_.empty() || step <= open_.front().step || Has(step)) return false;
  return !IsAhead(rank) && Dispensable(rank, step) == open_.size();
}

StepAssembler::Added StepAssembler::Add(int rank, int64_t step) {
  RankProgress& progress = progress_[static_cast<size_t>(rank)];
  if (step <= removed_) {
    CountLate(progress);
    const bool is_back = progress.silent >= open_steps_ && step > progress.newest;
    if (is_back || StepsAhead(rank) > kReorder) {
      progress.newest = step;
      AwaitAgain(rank, step);
    }
    return {Taken::kLate, 0, false};
  }
  auto open = Find(step);
  if (open == open_.end() || open->step != step) {
    if (free_.empty()) {
      const size_t position = Dispensable(rank, step);
      if (position == open_.size()) return {Taken::kLate, 0, false};
      Drop(position);
      open = Find(step);
    }
    open = Insert(open, step);
  }
  if (IsPresent(*open, rank)) return {Taken::kRepeated, 0, false};
  present_[BitOf(*open, rank)] = true;
  ++open->present;
  progress.late -= kLateRate * progress.late;
  if (step > progress.newest) {
    progress.newest = step;
    behind_ = std::max(behind_, static_cast<int>(open_.end() - open) - 1);
  }
  Settle(rank, open);
  return {Taken::kTaken, open->slot, open->present == 1};
}

bool StepAssembler::settled() const {
  if (open_.front().awaited <= 0) return true;
  const auto younger = static_cast<size_t>(patience_);
  return younger < open_.size() && open_.front().awaited <= few_ && open_[younger].awaited <= few_;
}

void StepAssembler::RemoveOldest() {
  const Open& oldest = open_.front();
  if (oldest.present < ranks_) {
    for (int rank = 0; rank < ranks_; ++rank) {
      RankProgress& progress = progress_[static_cast<size_t>(rank)];
      if (has_reported(rank) || progress.silent >= open_steps_) continue;
      if (++progress.silent < open_steps_) continue;
      for (size_t i = 1; i < open_.size(); ++i) {
        if (open_[i].step > progress.settled && !IsPresent(open_[i], rank)) --open_[i].awaited;
      }
    }
  }
  removed_ = oldest.step;
  free_.push_back(oldest.slot);
  open_.erase(open_.begin());
}

bool StepAssembler::Has(int64_t step) const {
  const auto at = std::lower_bound(open_.begin(), open_.end(), step,
                                   [](const Open& open, int64_t s) { return open.step < s; });
  return at != open_.end() && at->step == step;
}

bool StepAssembler::FewHaveReported(const Open& open) const {
  return open.present <= std::max(1, ranks_ / kHardlyAny);
}

int StepAssembler::StepsAhead(int rank) const {
  return static_cast<int>(std::count_if(open_.begin(), open_.end(), [&](const Open& open) {
    return FewHaveReported(open) && IsPresent(open, rank);
  }));
}

size_t StepAssembler::Dispensable(int rank, int64_t step) const {
  for (size_t i = open_.size(); i > 0 && open_[i - 1].step > step; --i) {
    if (FewHaveReported(open_[i - 1])) return i - 1;
  }
  const bool is_old = FewHaveReported(open_.front()) && open_.front().step < step;
  return is_old && !IsAhead(rank) ? 0 : open_.size();
}

// Who has reported it has reported no step of the present: it is awaited as if it had not.
void StepAssembler::Drop(size_t position) {
  const Open dropped = open_[position];
  open_.erase(open_.begin() + static_cast<ptrdiff_t>(position));
  free_.push_back(dropped.slot);
  if (position == 0) return;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!IsPresent(dropped, rank)) continue;
    progress_[static_cast<size_t>(rank)].newest = removed_;
    AwaitAgain(rank, removed_);
  }
}

StepAssembler::Steps::iterator StepAssembler::Find(int64_t step) {
  if (!open_.empty() && open_.back().step == step) return open_.end() - 1;
  return std::lower_bound(open_.begin(), open_.end(), step,
                          [](const Open& open, int64_t s) { return open.step < s; });
}

StepAssembler::Steps::iterator StepAssembler::Insert(Steps::iterator before, int64_t step) {
  if (++opened_ > kPatienceSteps) {
    patience_ = std::min(std::max(behind_ + 1, least_patience_), open_steps_);
    opened_ = behind_ = 0;
  }
  Open open{step, free_.back(), 0, 0};
  free_.pop_back();
  const auto row = present_.begin() + static_cast<ptrdiff_t>(open.slot) * ranks_;
  std::fill(row, row + ranks_, false);
  for (const RankProgress& rank : progress_) open.awaited += IsAwaited(rank, step) ? 1 : 0;
  return open_.insert(before, open);
}

size_t StepAssembler::BitOf(const Open& open, int rank) const {
  return static_cast<size_t>(open.slot) * static_cast<size_t>(ranks_) + static_cast<size_t>(rank);
}

bool StepAssembler::IsAwaited(const RankProgress& rank, int64_t step) const {
  return rank.silent < open_steps_ && step > rank.settled;
}

void StepAssembler::CountLate(RankProgress& rank) {
  rank.late += kLateRate * (1 - rank.late);
  if (rank.late <= kOftenLate) return;
  least_patience_ = patience_ = std::min(2 * patience_, open_steps_);
  for (RankProgress& each : progress_) each.late = 0;
}

void StepAssembler::AwaitAgain(int rank, int64_t after) {
  RankProgress& progress = progress_[static_cast<size_t>(rank)];
  const RankProgress before = progress;
  progress.silent = 0;
  progress.settled = after;
  for (Open& open : open_) {
    if (IsPresent(open, rank)) continue;
    open.awaited +=
        (IsAwaited(progress, open.step) ? 1 : 0) - (IsAwaited(before, open.step) ? 1 : 0);
  }
}

void StepAssembler::Settle(int rank, Steps::iterator reported) {
  RankProgress& progress = progress_[static_cast<size_t>(rank)];
  if (progress.silent >= open_steps_) {
    for (Open& open : open_) {
      if (open.step > progress.settled && !IsPresent(open, rank)) ++open.awaited;
    }
  } else if (reported->step > progress.settled) {
    --reported->awaited;
  }
  progress.silent = 0;
  const ptrdiff_t position = reported - open_.begin();
  if (position < kReorder) return;
  const auto last = reported - kReorder;
  if (last->step <= progress.settled) return;
  for (auto open = last;; --open) {
    if (open->step <= progress.settled) break;
    if (!IsPresent(*open, rank)) --open->awaited;
    if (open == open_.begin()) break;
  }
  progress.settled = last->step;
}

}  // namespace paceline
