// How often the progress of a job is shown to those who watch: at most once in a period. Reports
// come from each of its nodes, and each would be sent to every watcher with all ranks of the job.
// What is more than progress is shown at once.
//
//   progress, none shown for a period ──▶ shown
//   progress, earlier                 ──▶ waits ──▶ shown when the period is over, as it is then
//
// Times are steady. Thread-compatible.
#ifndef CONTROLLER_CORE_PROGRESS_PACE_H_
#define CONTROLLER_CORE_PROGRESS_PACE_H_

#include <map>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/deadlines.h"

namespace paceline {

class ProgressPace {
 public:
  explicit ProgressPace(absl::Duration period) : period_(period) {}

  // The job is shown now, for whatever reason.
  void Shown(const JobId& job, absl::Time now) {
    shown_[job] = now;
    waiting_.Set(job, absl::InfiniteFuture());
  }

  // The job has made progress. True: it is to be shown now. False: TakeDue will name it.
  bool MayShow(const JobId& job, absl::Time now) {
    const auto shown = shown_.find(job);
    if (shown == shown_.end() || now >= shown->second + period_) return true;
    waiting_.Set(job, shown->second + period_);
    return false;
  }

  // Jobs to be shown now.
  std::vector<JobId> TakeDue(absl::Time now) { return waiting_.TakeDue(now); }

  // When TakeDue names one next; infinite: nobody waits.
  absl::Time NextDue() const { return waiting_.Next(); }

  // The job has ended, or is deleted.
  void Forget(const JobId& job) {
    shown_.erase(job);
    waiting_.Set(job, absl::InfiniteFuture());
  }

 private:
  const absl::Duration period_;
  std::map<JobId, absl::Time> shown_;  // When last.
  Deadlines<JobId> waiting_;           // Until when.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_PROGRESS_PACE_H_
