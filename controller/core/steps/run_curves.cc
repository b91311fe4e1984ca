#include "controller/core/steps/run_curves.h"

namespace paceline {

void RunCurves::Add(const JobId& job, int64_t step, const std::vector<CurveValue>& values,
                    Moment now) {
  if (values.empty()) return;
  const auto [known, is_new] = jobs_.try_emplace(job);
  JobCurves& curves = known->second;
  if (is_new) {
    curves.since = now.wall;
    curves.since_step = step;
  }
  ended_.erase(std::pair(curves.ended, job));
  curves.ended = absl::InfiniteFuture();
  for (const CurveValue& value : values) AddValue(curves, value);
}

void RunCurves::AddValue(JobCurves& job, const CurveValue& value) {
  auto curve = job.curves.find(value.name);
  if (curve == job.curves.end()) {
    const bool is_full = value.name.reported && job.reported == options_.max_reported;
    if (is_full || !MakeRoom()) {
      job.left_out = true;
      return;
    }
    curve = job.curves.try_emplace(value.name).first;
    job.reported += value.name.reported ? 1 : 0;
    ++curves_;
  }
  curve->second.Add(value.step, value.value);
}

// The job whose curve needs the room has not ended, so it is not the one that goes.
bool RunCurves::MakeRoom() {
  while (curves_ >= options_.max_curves && !ended_.empty()) {
    Forget(JobId(ended_.begin()->second));
  }
  return curves_ < options_.max_curves;
}

void RunCurves::End(const JobId& job, Moment now) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  if (known->second.curves.empty()) return Forget(job);
  ended_.erase(std::pair(known->second.ended, job));
  known->second.ended = now.steady;
  ended_.emplace(now.steady, job);
}

void RunCurves::Forget(const JobId& job) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  curves_ -= known->second.curves.size();
  ended_.erase(std::pair(known->second.ended, job));
  jobs_.erase(known);
}

const JobCurves* RunCurves::Find(const JobId& job) const {
  const auto known = jobs_.find(job);
  return known == jobs_.end() ? nullptr : &known->second;
}

}  // namespace paceline
