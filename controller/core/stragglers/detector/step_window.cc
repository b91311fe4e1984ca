#include "controller/core/stragglers/detector/step_window.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace paceline {
namespace {

constexpr int64_t kNoStep = std::numeric_limits<int64_t>::min();
constexpr int kPatienceSteps = 32;
constexpr int kFew = 8;  // One of this many ranks is few, and so is one of fewer ranks.
constexpr double kLateRate = 1.0 / 32;
constexpr double kOftenLate = 0.25;

}  // namespace

StepWindow::StepWindow(int ranks, int open_steps)
    : ranks_(ranks),
      open_steps_(open_steps),
      cells_(static_cast<size_t>(ranks) * static_cast<size_t>(open_steps)),
      progress_(static_cast<size_t>(ranks), RankProgress{kNoStep, kNoStep, 0, 0}),
      patience_(open_steps),
      removed_(kNoStep) {
  open_.reserve(static_cast<size_t>(open_steps));
  for (int slot = 0; slot < open_steps; ++slot) free_.push_back(slot);
}

bool StepWindow::NeedsRoom(int rank, int64_t step) const {
  if (!free_.empty() || step <= open_.front().step || Has(step)) return false;
  return !IsAhead(rank) && Dispensable(rank, step) == open_.size();
}

StepWindow::Taken StepWindow::Add(const StepSample& sample) {
  RankProgress& progress = progress_[static_cast<size_t>(sample.rank)];
  if (sample.step <= removed_) {
    CountLate(progress);
    const bool is_back = progress.silent >= open_steps_ && sample.step > progress.newest;
    if (is_back || StepsAhead(sample.rank) > kReorder) {
      progress.newest = sample.step;
      AwaitAgain(sample.rank, sample.step);
    }
    return Taken::kLate;
  }
  auto open = Find(sample.step);
  if (open == open_.end() || open->step != sample.step) {
    if (free_.empty()) {
      const size_t position = Dispensable(sample.rank, sample.step);
      if (position == open_.size()) return Taken::kLate;
      Drop(position);
      open = Find(sample.step);
    }
    open = Insert(open, sample.step);
  }
  StepCell& cell = cells_[CellIndex(*open, sample.rank)];
  if (cell.present) return Taken::kRepeated;
  cell.forward_s = static_cast<float>(sample.forward_s);
  cell.backward_s = static_cast<float>(sample.backward_s);
  cell.data_wait_s = static_cast<float>(sample.data_wait_s);
  cell.wall_s = static_cast<float>(sample.wall_s);
  cell.workload = static_cast<float>(sample.workload);
  cell.present = true;
  progress.late -= kLateRate * progress.late;
  if (sample.step > progress.newest) {
    progress.newest = sample.step;
    behind_ = std::max(behind_, static_cast<int>(open_.end() - open) - 1);
  }
  ++open->present;
  open->masked = open->masked || sample.masked;
  Settle(sample.rank, open);
  return Taken::kTaken;
}

bool StepWindow::settled() const {
  if (open_.front().awaited <= 0) return true;
  const auto younger = static_cast<size_t>(patience_);
  return younger < open_.size() && FewAwaited(open_.front()) && FewAwaited(open_[younger]);
}

absl::Span<const StepCell> StepWindow::cells() const {
  return absl::MakeConstSpan(cells_).subspan(
      static_cast<size_t>(open_.front().slot) * static_cast<size_t>(ranks_),
      static_cast<size_t>(ranks_));
}

void StepWindow::RemoveOldest() {
  const Open& oldest = open_.front();
  if (oldest.present < ranks_) {
    const absl::Span<const StepCell> row = cells();
    for (size_t rank = 0; rank < row.size(); ++rank) {
      RankProgress& progress = progress_[rank];
      if (row[rank].present || progress.silent >= open_steps_) continue;
      if (++progress.silent < open_steps_) continue;
      for (size_t i = 1; i < open_.size(); ++i) {
        if (open_[i].step > progress.settled && !IsPresent(open_[i], static_cast<int>(rank))) {
          --open_[i].awaited;
        }
      }
    }
  }
  removed_ = oldest.step;
  free_.push_back(oldest.slot);
  open_.erase(open_.begin());
}

bool StepWindow::Has(int64_t step) const {
  const auto at = std::lower_bound(open_.begin(), open_.end(), step,
                                   [](const Open& open, int64_t s) { return open.step < s; });
  return at != open_.end() && at->step == step;
}

bool StepWindow::FewHaveTold(const Open& open) const {
  return open.present <= std::max(1, ranks_ / kFew);
}

int StepWindow::StepsAhead(int rank) const {
  return static_cast<int>(std::count_if(open_.begin(), open_.end(), [&](const Open& open) {
    return FewHaveTold(open) && IsPresent(open, rank);
  }));
}

size_t StepWindow::Dispensable(int rank, int64_t step) const {
  for (size_t i = open_.size(); i > 0 && open_[i - 1].step > step; --i) {
    if (FewHaveTold(open_[i - 1])) return i - 1;
  }
  const bool is_old = FewHaveTold(open_.front()) && open_.front().step < step;
  return is_old && !IsAhead(rank) ? 0 : open_.size();
}

// A rank that reported the dropped step told nothing of the present: it is awaited again.
void StepWindow::Drop(size_t position) {
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

std::vector<StepWindow::Open>::iterator StepWindow::Find(int64_t step) {
  if (!open_.empty() && open_.back().step == step) return open_.end() - 1;
  return std::lower_bound(open_.begin(), open_.end(), step,
                          [](const Open& open, int64_t s) { return open.step < s; });
}

std::vector<StepWindow::Open>::iterator StepWindow::Insert(std::vector<Open>::iterator before,
                                                           int64_t step) {
  if (++opened_ > kPatienceSteps) {
    patience_ = std::min(std::max(behind_ + 1, least_patience_), open_steps_);
    opened_ = behind_ = 0;
  }
  Open open{step, free_.back(), 0, 0, false};
  free_.pop_back();
  const auto row = cells_.begin() + static_cast<ptrdiff_t>(open.slot) * ranks_;
  std::fill(row, row + ranks_, StepCell());
  for (const RankProgress& rank : progress_) open.awaited += IsAwaited(rank, step) ? 1 : 0;
  return open_.insert(before, open);
}

size_t StepWindow::CellIndex(const Open& open, int rank) const {
  return static_cast<size_t>(open.slot) * static_cast<size_t>(ranks_) + static_cast<size_t>(rank);
}

bool StepWindow::IsPresent(const Open& open, int rank) const {
  return cells_[CellIndex(open, rank)].present;
}

bool StepWindow::IsAwaited(const RankProgress& rank, int64_t step) const {
  return rank.silent < open_steps_ && step > rank.settled;
}

bool StepWindow::FewAwaited(const Open& open) const {
  return open.awaited <= (ranks_ + kFew / 2) / kFew;
}

void StepWindow::CountLate(RankProgress& rank) {
  rank.late += kLateRate * (1 - rank.late);
  if (rank.late <= kOftenLate) return;
  least_patience_ = patience_ = std::min(2 * patience_, open_steps_);
  for (RankProgress& each : progress_) each.late = 0;
}

void StepWindow::AwaitAgain(int rank, int64_t after) {
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

void StepWindow::Settle(int rank, std::vector<Open>::iterator reported) {
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
