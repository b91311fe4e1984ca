#include "controller/core/stragglers/detector/detector.h"

#include <cmath>
#include <cstddef>
#include <utility>

namespace paceline {
namespace {

constexpr double kLeastWork = 1e-9;  // Seconds.

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
  while (window_->NeedsRoom(sample.rank, sample.step)) CloseOldest(verdicts);
  switch (window_->Add(sample)) {
    case StepWindow::Taken::kTaken:
      ++counts_.taken;
      if (sample.masked) ++counts_.masked;
      break;
    case StepWindow::Taken::kLate:
      ++counts_.late;
      return;
    case StepWindow::Taken::kRepeated:
      ++counts_.repeated;
      return;
  }
  while (!window_->empty() && window_->settled()) CloseOldest(verdicts);
}

void StragglerDetector::Close(std::vector<Verdict>& verdicts) {
  while (!window_->empty()) CloseOldest(verdicts);
}

void StragglerDetector::Restart(std::vector<DetectorRank> ranks) {
  history_.Place(ranks, counts_.rows);
  rows_to_warm_up_ = options_.warm_up_steps;
  window_ = std::make_unique<StepWindow>(static_cast<int>(ranks.size()), options_.open_steps);
  watch_ = std::make_unique<JobWatch>(options_, std::move(ranks), history_);
}

RankStatus StragglerDetector::status(int rank) const {
  const RankStatus status = watch_->status(rank);
  return rows_to_warm_up_ > 0 && status == RankStatus::kHealthy ? RankStatus::kWarmingUp : status;
}

void StragglerDetector::CloseOldest(std::vector<Verdict>& verdicts) {
  counts_.missing += window_->missing();
  if (window_->masked()) {
    ++counts_.left_out;
  } else if (rows_to_warm_up_ > 0) {
    --rows_to_warm_up_;
    ++counts_.left_out;
  } else {
    watch_->AddRow(window_->step(), window_->cells(), counts_.rows, verdicts);
    ++counts_.rows;
  }
  window_->RemoveOldest();
}

}  // namespace paceline
