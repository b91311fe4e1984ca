#include "controller/core/job/job_account.h"

#include <algorithm>

#include "controller/core/checkpoint/job_checkpoints.h"

namespace paceline {
namespace {

// Time in RUNNING that may yet prove to have been in steps: reports may be late, and each of up to
// three steps under way is reported at its end.
constexpr double kLateReportsS = 10;
constexpr double kStepsUnderWay = 3;

}  // namespace

const char* NameOf(TimeCategory category) {
  constexpr std::array<const char*, kTimeCategories> kNames = {
      "queued", "startup", "productive", "data_wait", "outside_steps", "recovery", "stopping"};
  return kNames[static_cast<size_t>(category)];
}

JobAccount::JobAccount(const Job& job, Moment now)
    : since_(now.steady),
      ended_(job.ended_already()),
      ranks_(std::max(1, static_cast<int>(job.ranks.size()))),
      restarts_(job.restarts) {
  category_ = CategoryOf(job);
  // Until a start has come to training, all its steps are still to be counted.
  if (job.ranks.empty() || job.state == JobState::kStarting) return;
  started_ = job.recovery.started;
  generation_ = job.generation;
  is_step_known_ = false;
}

TimeCategory JobAccount::CategoryOf(const Job& job) const {
  switch (job.state) {
    case JobState::kQueued:
      return restarting_ ? TimeCategory::kRecovery : TimeCategory::kQueued;
    case JobState::kStarting:
      return restarting_ ? TimeCategory::kRecovery : TimeCategory::kStartup;
    case JobState::kRunning:
      return TimeCategory::kProductive;
    case JobState::kRecovering:
      return TimeCategory::kRecovery;
    case JobState::kStopping:
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      break;
  }
  return job.failure.has_value() ? TimeCategory::kRecovery : TimeCategory::kStopping;
}

void JobAccount::Follow(const Job& job, Moment now) {
  CountTime(now.steady);
  CountSteps(job, now);
  if (job.restarts > restarts_) restarting_ = true;
  if (job.state == JobState::kRunning) restarting_ = false;
  restarts_ = job.restarts;
  const TimeCategory before = category_;
  category_ = CategoryOf(job);
  if (before == TimeCategory::kProductive && category_ != before) Divide(/*all=*/true);
  if (!job.ranks.empty()) ranks_ = static_cast<int>(job.ranks.size());
  ended_ = job.ended_already();
}

void JobAccount::TakeStep(double total_s, double data_wait_s) {
  if (category_ != TimeCategory::kProductive || ended_) return;
  reported_productive_ += (total_s - data_wait_s) / ranks_;
  reported_wait_ += data_wait_s / ranks_;
  longest_step_ = std::max(longest_step_, total_s);
}

void JobAccount::CountTime(absl::Time steady) {
  const double passed = absl::ToDoubleSeconds(std::max(absl::ZeroDuration(), steady - since_));
  since_ = steady;
  if (ended_) return;
  if (category_ != TimeCategory::kProductive) return Add(category_, passed);
  running_ += passed;
  Divide(/*all=*/false);
}

// Divides the time in RUNNING by what the ranks have reported. The part that nobody can report any
// more goes to outside_steps; with `all`, the whole rest does.
void JobAccount::Divide(bool all) {
  const double reported = reported_productive_ + reported_wait_;
  const double in_steps = std::min(running_, reported);
  if (in_steps > 0) {
    Add(TimeCategory::kProductive, in_steps * reported_productive_ / reported);
    Add(TimeCategory::kDataWait, in_steps * reported_wait_ / reported);
    reported_productive_ -= in_steps * reported_productive_ / reported;
    reported_wait_ -= in_steps * reported_wait_ / reported;
    running_ -= in_steps;
  }
  const double kept = all ? 0 : kLateReportsS + kStepsUnderWay * longest_step_;
  if (running_ > kept) {
    Add(TimeCategory::kOutsideSteps, running_ - kept);
    running_ = kept;
  }
  if (all) reported_productive_ = reported_wait_ = longest_step_ = 0;
}

void JobAccount::CountSteps(const Job& job, Moment now) {
  if (job.ranks.empty()) return;
  if (job.generation != generation_ && job.recovery.started != started_) {
    // A new start, from a checkpoint of its own or of another job, or from the beginning.
    const Checkpoint* from = job.restored_from.empty() || !SavesCheckpoints(job.request)
                                 ? nullptr
                                 : FindByDirectory(job, job.restored_from);
    const bool from_another = !job.restored_from.empty() && from == nullptr;
    if (is_step_known_ && !from_another) Lose(from != nullptr ? from->key.step : 0);
    is_step_known_ = !from_another;
    step_ = from != nullptr ? from->key.step : 0;
    started_ = job.recovery.started;
    generation_ = job.generation;
  }
  if (job.generation != generation_ && !job.recovery.history.empty()) {
    const MembershipChange& change = job.recovery.history.back();
    if (change.ended == absl::InfinitePast()) return;  // Its ranks do not report the job's step.
    if (is_step_known_) Lose(change.step);
    generation_ = job.generation;
  }
  const int64_t step = Summarize(job, now.wall).step;
  if (!is_step_known_) {
    is_step_known_ = step > 0;
    step_ = step;
    return;
  }
  if (step <= step_) return;
  executed_ += step - step_;
  step_ = step;
  progressed_ = now.wall;
}

void JobAccount::Lose(int64_t step) {
  lost_ += std::max<int64_t>(0, step_ - step);
  step_ = std::min(step_, step);
}

}  // namespace paceline
