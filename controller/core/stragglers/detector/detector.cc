#include "controller/core/stragglers/detector/detector.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace paceline {
namespace {

constexpr double kLeastWork = 1e-9;  // Seconds.
constexpr int kFew = 8;              // A row may lack one of so many ranks.

bool IsDuration(double seconds, double max) {
  return seconds >= 0 && seconds <= max;  // False for NaN.
}

bool IsDurationOrUnknown(double seconds, double max) {
  return std::isnan(seconds) || IsDuration(seconds, max);
}

double KnownOr0(double seconds) { return std::isnan(seconds) ? 0 : seconds; }

bool IsValid(const StepSample& sample, double max_s) {
  return IsDurationOrUnknown(sample.forward_s, max_s) &&
         IsDurationOrUnknown(sample.backward_s, max_s) &&
         IsDurationOrUnknown(sample.data_wait_s, max_s) && IsDuration(sample.wall_s, max_s) &&
         KnownOr0(sample.forward_s) + KnownOr0(sample.backward_s) >= kLeastWork &&
         sample.workload >= 0 && sample.workload <= 1e30;
}

StepCell CellOf(const StepSample& sample) {
  StepCell cell;
  cell.forward_s = static_cast<float>(sample.forward_s);
  cell.backward_s = static_cast<float>(sample.backward_s);
  cell.data_wait_s = static_cast<float>(sample.data_wait_s);
  cell.wall_s = static_cast<float>(sample.wall_s);
  cell.workload = static_cast<float>(sample.workload);
  cell.present = true;
  cell.masked = sample.masked;
  return cell;
}

}  // namespace

StragglerDetector::StragglerDetector(DetectorOptions options, std::vector<DetectorRank> ranks)
    : options_(options),
      history_(options.recurrence_steps, options.recurrence_episodes, options.persistent_steps) {
  Restart(std::move(ranks));
}

void StragglerDetector::Add(const StepSample& sample, std::vector<Verdict>& verdicts) {
  if (sample.rank < 0 || sample.rank >= watch_->ranks() || !IsValid(sample, options_.max_step_s)) {
    ++counts_.invalid;
    return;
  }
  while (steps_->NeedsRoom(sample.rank, sample.step)) CloseOldest(verdicts);
  const StepAssembler::Added added = steps_->Add(sample.rank, sample.step);
  switch (added.taken) {
    case StepAssembler::Taken::kTaken:
      ++counts_.taken;
      if (sample.masked) ++counts_.masked;
      break;
    case StepAssembler::Taken::kLate:
      ++counts_.late;
      return;
    case StepAssembler::Taken::kRepeated:
      ++counts_.repeated;
      return;
  }
  const absl::Span<StepCell> cells = CellsOf(added.slot);
  if (added.is_first) std::fill(cells.begin(), cells.end(), StepCell());
  cells[static_cast<size_t>(sample.rank)] = CellOf(sample);
  while (!steps_->empty() && steps_->settled()) CloseOldest(verdicts);
}

void StragglerDetector::Close(std::vector<Verdict>& verdicts) {
  while (!steps_->empty()) CloseOldest(verdicts);
}

void StragglerDetector::Restart(std::vector<DetectorRank> ranks) {
  history_.Place(ranks, counts_.rows);
  rows_to_warm_up_ = options_.warm_up_steps;
  const int count = static_cast<int>(ranks.size());
  steps_ = std::make_unique<StepAssembler>(count, options_.open_steps, (count + kFew / 2) / kFew);
  cells_.assign(ranks.size() * static_cast<size_t>(options_.open_steps), StepCell());
  watch_ = std::make_unique<JobWatch>(options_, std::move(ranks), history_);
}

RankStatus StragglerDetector::status(int rank) const {
  const RankStatus status = watch_->status(rank);
  return rows_to_warm_up_ > 0 && status == RankStatus::kHealthy ? RankStatus::kWarmingUp : status;
}

absl::Span<StepCell> StragglerDetector::CellsOf(int slot) {
  const auto ranks = static_cast<size_t>(watch_->ranks());
  return absl::MakeSpan(cells_).subspan(static_cast<size_t>(slot) * ranks, ranks);
}

void StragglerDetector::CloseOldest(std::vector<Verdict>& verdicts) {
  const absl::Span<const StepCell> cells = CellsOf(steps_->slot());
  counts_.missing += steps_->missing();
  if (std::any_of(cells.begin(), cells.end(), [](const StepCell& cell) { return cell.masked; })) {
    ++counts_.left_out;
  } else if (rows_to_warm_up_ > 0) {
    --rows_to_warm_up_;
    ++counts_.left_out;
  } else {
    watch_->AddRow(steps_->step(), cells, counts_.rows, verdicts);
    ++counts_.rows;
  }
  steps_->RemoveOldest();
}

}  // namespace paceline
