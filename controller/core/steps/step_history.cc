#include "controller/core/steps/step_history.h"

#include <algorithm>

namespace paceline {

void StepHistory::Follow(const Cluster& cluster, const Actions& actions, Moment now) {
  for (const JobId& id : actions.delete_jobs) {
    const auto known = jobs_.find(id);
    if (known != jobs_.end()) Forget(known);
  }
  for (const JobId& id : actions.show_jobs) {
    const auto job = cluster.jobs().find(id);
    if (job != cluster.jobs().end()) FollowJob(job->second, now);
  }
  if (now.steady >= next_end_) ForgetEnded(now);
}

void StepHistory::FollowJob(const Job& job, Moment now) {
  auto known = jobs_.find(job.request.id);
  if (known == jobs_.end()) {
    if (job.state != JobState::kRunning || jobs_.size() >= options_.max_jobs) return;
    known = jobs_.try_emplace(job.request.id).first;
  }
  JobHistory& history = known->second;
  if (job.ended_already()) {
    if (history.ended != absl::InfiniteFuture()) return;
    history.ended = now.steady;
    next_end_ = std::min(next_end_, now.steady + options_.keep_ended);
    return;
  }
  history.ended = absl::InfiniteFuture();
  if (job.state == JobState::kRunning && job.generation != history.generation) {
    Begin(job, history);
  }
  history.series.Follow(job, now);
}

void StepHistory::Begin(const Job& job, JobHistory& history) {
  history.generation = job.generation;
  history.ranks.clear();
  const int ranks = static_cast<int>(job.ranks.size());
  for (int r = 0; r < ranks; ++r) {
    const TrainerId& id = job.ranks[static_cast<size_t>(r)].report.id;
    history.ranks[{id.generation, id.rank}] = r;
  }
  if (history.steps == nullptr || history.steps->ranks() != ranks) {
    if (history.steps != nullptr) rows_ -= history.steps->rows();
    history.steps.reset();
    const int room = std::min(options_.max_job_rows, options_.max_rows - rows_);
    if (ranks == 0 || room <= 0) return;
    history.steps = std::make_unique<JobSteps>(ranks, (ranks + room - 1) / room);
    rows_ += history.steps->rows();
  }
  history.steps->Begin(job.generation);
}

void StepHistory::TakeSteps(const Cluster& cluster, const NodeName& node, const TrainerId& trainer,
                            absl::Span<const StepTimes> steps) {
  const auto known = jobs_.find(trainer.job);
  const auto found = cluster.jobs().find(trainer.job);
  if (known == jobs_.end() || found == cluster.jobs().end()) return;
  JobHistory& history = known->second;
  const Job& job = found->second;
  const auto rank = history.ranks.find({trainer.generation, trainer.rank});
  const bool is_member = rank != history.ranks.end() && job.generation == history.generation &&
                         rank->second < static_cast<int>(job.ranks.size()) &&
                         job.ranks[static_cast<size_t>(rank->second)].place.node == node;
  if (!is_member) return;
  for (const StepTimes& times : steps) {
    if (!IsPlausible(times) || times.step >= job.request.steps) continue;
    history.series.Add(times);
    if (history.steps != nullptr) history.steps->Add(rank->second, times);
  }
}

const JobHistory* StepHistory::Find(const JobId& job) const {
  const auto known = jobs_.find(job);
  return known == jobs_.end() ? nullptr : &known->second;
}

void StepHistory::Forget(std::map<JobId, JobHistory>::iterator job) {
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
