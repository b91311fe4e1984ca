// Decides when a job is looked at as a whole after its trainers have reported. A look costs by the
// job's ranks, and a job of thousands has thousands of reports in a second, so that a look for each
// would cost by the square. So looks at large jobs are at least a period apart, which grows with
// the ranks: looks take the same share of time in jobs of any size. What comes in between waits for
// the first report after the period, or for kPatience if none comes.
//
// Pure: times are arguments, and steady. Thread-compatible.
#ifndef CONTROLLER_CORE_CLUSTER_LOOK_THROTTLE_H_
#define CONTROLLER_CORE_CLUSTER_LOOK_THROTTLE_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster/deadlines.h"

namespace paceline {

class LookThrottle {
 public:
  // How much longer than its period a job waits at most. Reports of large jobs come each
  // millisecond, and a deadline costs a look at all jobs.
  static constexpr absl::Duration kPatience = absl::Milliseconds(100);

  struct Options {
    absl::Duration per_rank = absl::Microseconds(20);  // The period, per rank.
    absl::Duration least = absl::Milliseconds(5);      // Jobs with shorter periods do not wait.
  };

  explicit LookThrottle(const Options& options) : options_(options) {}

  // Takes in a report of one of the job's trainers, and returns whether to look at the job now.
  // `news`: this report is reason to look; otherwise an earlier one may be.
  bool MayLook(const JobId& job, size_t ranks, bool news, absl::Time now) {
    const absl::Duration period = static_cast<int64_t>(ranks) * options_.per_rank;
    if (period < options_.least) return news;
    Turn& turn = turns_[job];
    turn.waits = turn.waits || news;
    if (!turn.waits) return false;
    if (now < turn.next) {
      deadlines_.Set(job, turn.next + kPatience);
      return false;
    }
    turn = {now + period, false};
    deadlines_.Set(job, absl::InfiniteFuture());
    return true;
  }

  // Jobs to look at now, as no report has come since. Call it when NextDeadline has come.
  std::vector<JobId> TakeDue(absl::Time now) {
    const std::vector<JobId> due = deadlines_.TakeDue(now);
    for (const JobId& job : due) turns_.erase(job);
    return due;
  }
  absl::Time NextDeadline() const { return deadlines_.Next(); }  // InfiniteFuture(): none.

  void Forget(const JobId& job) {
    turns_.erase(job);
    deadlines_.Set(job, absl::InfiniteFuture());
  }

 private:
  struct Turn {
    absl::Time next = absl::InfinitePast();  // No look before this.
    bool waits = false;                      // There is something to look at.
  };

  const Options options_;
  std::map<JobId, Turn> turns_;  // Only of large jobs.
  Deadlines<JobId> deadlines_;   // Of the jobs that wait.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CLUSTER_LOOK_THROTTLE_H_
