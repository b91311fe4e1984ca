#include "controller/core/steps/step_history.h"

#include <algorithm>
#include <vector>

namespace paceline {
namespace {

// Adds Paceline's own values. What is not known has none.
class OwnValues {
 public:
  explicit OwnValues(std::vector<CurveValue>& values) : values_(values) {}

  void Add(const char* name, int64_t step, double value) {
    values_.push_back({{/*reported=*/false, name}, step, value});
  }
  void AddKnown(const char* name, int64_t step, double value) {
    if (value != 0) Add(name, step, value);
  }

 private:
  std::vector<CurveValue>& values_;
};

void AddPeriod(const SeriesPoint& period, OwnValues& values) {
  values.AddKnown(curve_name::kLoss, period.step, period.loss);
  values.AddKnown(curve_name::kSamplesPerS, period.step, period.samples_per_second);
  values.AddKnown(curve_name::kTokensPerS, period.step, period.tokens_per_second);
  if (period.mfu.has_value()) values.Add(curve_name::kMfu, period.step, *period.mfu);
  if (period.step_s <= 0) return;
  values.Add(curve_name::kStepS, period.step, period.step_s / static_cast<double>(period.records));
  values.Add(curve_name::kWaitShare, period.step,
             std::clamp(1 - period.own_s / period.step_s, 0.0, 1.0));
}

// Of a job that has ended, step and loss of the end, which lies within a period. The rates of an
// incomplete period would mislead.
SeriesPoint LastOf(const Job& job, Moment now) {
  const JobProgress progress = Summarize(job, now.wall);
  SeriesPoint last;
  last.step = progress.step;
  last.loss = static_cast<float>(progress.loss);
  return last;
}

void AddEvaluation(const Evaluation& evaluation, OwnValues& values) {
  values.Add(curve_name::kEvaluationLoss, evaluation.step, evaluation.loss);
  if (!evaluation.accuracy.has_value()) return;
  values.Add(curve_name::kEvaluationAccuracy, evaluation.step, *evaluation.accuracy);
}

}  // namespace

void StepHistory::Follow(const Cluster& cluster, const Actions& actions, Moment now) {
  for (const JobId& id : actions.delete_jobs) {
    const auto known = jobs_.find(id);
    if (known != jobs_.end()) Forget(known);
    curves_.Forget(id);
  }
  for (const JobId& id : actions.show_jobs) {
    const Job* job = cluster.FindJob(id);
    if (job != nullptr) FollowJob(*job, now);
  }
  if (now.steady >= next_end_) ForgetEnded(now);
}

void StepHistory::FollowJob(const Job& job, Moment now) {
  auto known = jobs_.find(job.request.id);
  if (known == jobs_.end()) {
    if (job.state != JobState::kRunning || jobs_.size() >= options_.max_jobs) return;
    known = jobs_.try_emplace(job.request.id).first;
  }
  MeasuredJob& measured = known->second;
  if (job.ended_already()) {
    if (measured.ended != absl::InfiniteFuture()) return;
    measured.ended = now.steady;
    FollowRun(job, LastOf(job, now), now);
    curves_.End(job.request.id, now);
    next_end_ = std::min(next_end_, now.steady + options_.keep_ended);
    return;
  }
  measured.ended = absl::InfiniteFuture();
  if (job.state == JobState::kRunning && job.generation != measured.generation) {
    Begin(job, measured);
  }
  if (measured.series.Follow(job, now)) FollowRun(job, measured.series.points().back(), now);
}

void StepHistory::FollowRun(const Job& job, const SeriesPoint& period, Moment now) {
  if (period.step <= 0) return;
  std::vector<CurveValue> values;
  OwnValues own(values);
  AddPeriod(period, own);
  if (job.evaluation.has_value()) AddEvaluation(*job.evaluation, own);
  if (read_) {
    const std::vector<CurveValue> read = read_(job);
    values.insert(values.end(), read.begin(), read.end());
  }
  curves_.Add(job.request.id, period.step, values, now);
}

void StepHistory::Begin(const Job& job, MeasuredJob& measured) {
  measured.generation = job.generation;
  measured.ranks.clear();
  const int ranks = static_cast<int>(job.ranks.size());
  for (int r = 0; r < ranks; ++r) {
    const TrainerId& id = job.ranks[static_cast<size_t>(r)].report.id;
    measured.ranks[{id.generation, id.rank}] = r;
  }
  if (measured.steps == nullptr || measured.steps->ranks() != ranks) {
    if (measured.steps != nullptr) rows_ -= measured.steps->rows();
    measured.steps.reset();
    const int room = std::min(options_.max_job_rows, options_.max_rows - rows_);
    if (ranks == 0 || room <= 0) return;
    measured.steps = std::make_unique<JobSteps>(ranks, (ranks + room - 1) / room);
    rows_ += measured.steps->rows();
  }
  measured.steps->Begin(job.generation);
}

void StepHistory::TakeSteps(const Cluster& cluster, const NodeName& node, const TrainerId& trainer,
                            absl::Span<const StepTimes> steps) {
  const auto known = jobs_.find(trainer.job);
  const Job* job = cluster.FindJob(trainer.job);
  if (known == jobs_.end() || job == nullptr) return;
  MeasuredJob& measured = known->second;
  const auto rank = measured.ranks.find({trainer.generation, trainer.rank});
  const bool is_member = rank != measured.ranks.end() && job->generation == measured.generation &&
                         rank->second < static_cast<int>(job->ranks.size()) &&
                         job->ranks[static_cast<size_t>(rank->second)].slot.node == node;
  if (!is_member) return;
  for (const StepTimes& times : steps) {
    if (!IsPlausible(times) || times.step >= job->request.steps) continue;
    measured.series.Add(times);
    if (measured.steps != nullptr) measured.steps->Add(rank->second, times);
  }
}

const MeasuredJob* StepHistory::Find(const JobId& job) const {
  const auto known = jobs_.find(job);
  return known == jobs_.end() ? nullptr : &known->second;
}

void StepHistory::Forget(Jobs::iterator job) {
  if (job->second.steps != nullptr) rows_ -= job->second.steps->rows();
  jobs_.erase(job);
}

void StepHistory::ForgetEnded(Moment now) {
  next_end_ = absl::InfiniteFuture();
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto here = job++;
    const absl::Time due = here->second.ended + options_.keep_ended;
    if (due <= now.steady) {
      Forget(here);
    } else {
      next_end_ = std::min(next_end_, due);
    }
  }
}

}  // namespace paceline
