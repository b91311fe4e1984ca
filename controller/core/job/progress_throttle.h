// Limits how often a job's progress is shown to watchers: once in a period. Reports come from each
// of its nodes, and each would be sent to every watcher with all ranks of the job. Changes that are
// more than progress are shown at once.
//
//   progress, none shown for a period ──▶ shown
//   progress, sooner                  ──▶ waits ──▶ shown at the job's next turn, as it is then
//
// Each job has its own turns, a period apart, and the jobs' turns are spread over the period. If
// jobs were instead shown a period after the last time, those once shown together, as after a start
// or when the loop was late, would be shown together for ever, and all else would wait for them. A
// turn within half a period after the job was shown is left out. There are kTurnsInPeriod turns in
// a period, and jobs that share one are shown together, so that watchers of many jobs are woken
// only that often.
//
// Times are steady. Thread-compatible.
#ifndef CONTROLLER_CORE_JOB_PROGRESS_THROTTLE_H_
#define CONTROLLER_CORE_JOB_PROGRESS_THROTTLE_H_

#include <cmath>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster/deadlines.h"

namespace paceline {

class ProgressThrottle {
 public:
  static constexpr int kTurnsInPeriod = 20;

  explicit ProgressThrottle(absl::Duration period) : period_(period) {}

  // The job is being shown now, for whatever reason.
  void Shown(const JobId& job, absl::Time now) {
    const auto [turn, is_new] = turns_.try_emplace(job);
    if (is_new) turn->second.phase = NextPhase();
    turn->second.next = After(turn->second.phase, now + period_ / 2);
    waiting_.Set(job, absl::InfiniteFuture());
  }

  // The job has made progress. True: show it now. False: TakeDue will name it.
  bool MayShow(const JobId& job, absl::Time now) {
    const auto turn = turns_.find(job);
    if (turn == turns_.end() || now >= turn->second.next) return true;
    waiting_.Set(job, turn->second.next);
    return false;
  }

  // Jobs that are to be shown now.
  std::vector<JobId> TakeDue(absl::Time now) { return waiting_.TakeDue(now); }

  // When TakeDue will next name a job; infinite: none waits.
  absl::Time NextDue() const { return waiting_.Next(); }

  // The job has ended, or is deleted.
  void Forget(const JobId& job) {
    turns_.erase(job);
    waiting_.Set(job, absl::InfiniteFuture());
  }

 private:
  struct Turn {
    absl::Duration phase;  // Less than a period.
    absl::Time next;
  };

  // The next job's phase: multiples of the golden ratio are spread evenly for any number of jobs.
  absl::Duration NextPhase() {
    constexpr double kGoldenRatio = 0.6180339887498949;
    phase_ = std::fmod(phase_ + kGoldenRatio, 1.0);
    return std::floor(phase_ * kTurnsInPeriod) * (period_ / kTurnsInPeriod);
  }

  // The first turn with this phase after `time`.
  absl::Time After(absl::Duration phase, absl::Time time) const {
    absl::Duration since;
    absl::IDivDuration(time - absl::UnixEpoch() - phase, period_, &since);
    return time - since + period_;
  }

  const absl::Duration period_;
  double phase_ = 0;  // The newest job's, as a fraction of the period.
  std::map<JobId, Turn> turns_;
  Deadlines<JobId> waiting_;  // The waiting jobs, and until when.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_PROGRESS_THROTTLE_H_
