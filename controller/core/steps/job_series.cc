#include "controller/core/steps/job_series.h"

#include <algorithm>
#include <utility>

namespace paceline {

void JobSeries::Add(const StepTimes& times) {
  ++open_.records;
  open_.step_s += times.total_s;
  open_.own_s += OwnSeconds(times);
  open_.data_wait_s += times.data_wait_s;
}

void JobSeries::Follow(const Job& job, Moment now) {
  if (due_ == absl::InfinitePast()) due_ = now.steady + period_;
  if (now.steady < due_) return;
  const JobProgress progress = Summarize(job, now.wall);
  open_.end = now.wall;
  open_.step = progress.step;
  open_.loss = static_cast<float>(progress.loss);
  open_.samples_per_second = static_cast<float>(progress.samples_per_second);
  open_.tokens_per_second = static_cast<float>(progress.tokens_per_second);
  if (progress.mfu.has_value()) open_.mfu = static_cast<float>(*progress.mfu);
  FollowRun({open_.step, open_.loss});
  points_.push_back(std::exchange(open_, {}));
  if (points_.size() > kSeriesPoints && period_ < kLastSeriesPeriod) MergePairs();
  while (points_.size() > kSeriesPoints) points_.pop_front();
  due_ = now.steady + period_;
}

void JobSeries::FollowRun(RunPoint point) {
  if (point.step <= 0) return;
  while (!run_.empty() && run_.back().step > point.step) run_.pop_back();
  if (!run_.empty() && point.step < run_.back().step + run_stride_) return;
  run_.push_back(point);
  if (run_.size() <= kRunPoints) return;
  // Keeps every second point, including the first and the newest.
  size_t kept = 0;
  for (size_t i = 0; i < run_.size(); i += 2) run_[kept++] = run_[i];
  run_.resize(kept);
  const auto gaps = static_cast<int64_t>(kept) - 1;
  run_stride_ = std::max(2 * run_stride_, (run_.back().step - run_.front().step) / gaps);
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
