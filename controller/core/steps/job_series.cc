#include "controller/core/steps/job_series.h"

#include <utility>

namespace paceline {

void JobSeries::Add(const StepTimes& times) {
  ++open_.records;
  open_.step_s += times.total_s;
  open_.own_s += OwnSeconds(times);
  open_.data_wait_s += times.data_wait_s;
}

bool JobSeries::Follow(const Job& job, Moment now) {
  if (due_ == absl::InfinitePast()) due_ = now.steady + period_;
  if (now.steady < due_) return false;
  const JobProgress progress = Summarize(job, now.wall);
  open_.end = now.wall;
  open_.step = progress.step;
  open_.loss = static_cast<float>(progress.loss);
  open_.samples_per_second = static_cast<float>(progress.samples_per_second);
  open_.tokens_per_second = static_cast<float>(progress.tokens_per_second);
  if (progress.mfu.has_value()) open_.mfu = static_cast<float>(*progress.mfu);
  points_.push_back(std::exchange(open_, {}));
  if (points_.size() > kSeriesPoints && period_ < kLastSeriesPeriod) MergePairs();
  while (points_.size() > kSeriesPoints) points_.pop_front();
  due_ = now.steady + period_;
  return true;
}

void JobSeries::MergePairs() {
  period_ *= 2;
  std::deque<SeriesPoint> merged;
  // Merges two by two from the newest back; the oldest may be left without a partner.
  while (!points_.empty()) {
    SeriesPoint later = points_.back();
    points_.pop_back();
    if (!points_.empty()) {
      const SeriesPoint& earlier = points_.back();
      later.records += earlier.records;
      later.step_s += earlier.step_s;
      later.own_s += earlier.own_s;
      later.data_wait_s += earlier.data_wait_s;
      points_.pop_back();
    }
    merged.push_front(later);
  }
  points_ = std::move(merged);
}

}  // namespace paceline
