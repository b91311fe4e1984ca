// When a job is looked at as a whole, after what its trainers have told of themselves. A look costs
// by the job's ranks, and a job of thousands has thousands of reports in a second: by its square.
// So large jobs are looked at a period after the last time at the earliest, which grows with their
// ranks: looks take the same share of time in jobs of any size. What came meanwhile waits for the
// first report after that, or for kPatience if none comes.
//
// Pure: times are arguments, and steady. Thread-compatible.
#ifndef CONTROLLER_CORE_CLUSTER_LOOK_PACE_H_
#define CONTROLLER_CORE_CLUSTER_LOOK_PACE_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster/deadlines.h"

namespace paceline {

class LookPace {
 public:
  // So much longer than its period a job waits at most. Reports of large jobs come each
  // millisecond, and a deadline is a look at all jobs.
  static constexpr absl::Duration kPatience = absl::Milliseconds(100);

  struct Options {
    absl::Duration per_rank = absl::Microseconds(20);  // Of a period.
    absl::Duration least = absl::Milliseconds(5);      // Jobs with shorter ones need not wait.
  };

  explicit LookPace(const Options& options) : options_(options) {}

  // A trainer of the job has reported. `news`: there is something to look at; else there may be
  // from earlier. Whether to look now.
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

  // Jobs to look at now, since no report has come. To be asked from NextDeadline on.
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
    absl::Time next = absl::InfinitePast();  // Not earlier.
    bool waits = false;                      // There is something to look at.
  };

  const Options options_;
  std::map<JobId, Turn> turns_;  // Of large jobs.
  Deadlines<JobId> deadlines_;   // Of those that wait.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CLUSTER_LOOK_PACE_H_
