// Decides which jobs' code a node keeps: the code of jobs that need it, and for a while after,
// since a restarting job is on no node for a moment.
#ifndef WORKER_DAEMON_CORE_CODE_USE_H_
#define WORKER_DAEMON_CORE_CODE_USE_H_

#include <map>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"

namespace paceline {

// Thread-compatible.
class CodeUse {
 public:
  static constexpr absl::Duration kKept = absl::Seconds(60);

  void Begin(const JobId& job, absl::Time now) { needed_at_[job] = now; }

  // Returns, and forgets, the jobs that have not been `needed` for kKept (or never since Begin).
  std::vector<JobId> TakeUnused(const std::set<JobId>& needed, absl::Time now) {
    std::vector<JobId> unused;
    for (auto job = needed_at_.begin(); job != needed_at_.end();) {
      if (needed.count(job->first) > 0) job->second = now;
      if (now - job->second <= kKept) {
        ++job;
        continue;
      }
      unused.push_back(job->first);
      job = needed_at_.erase(job);
    }
    return unused;
  }

 private:
  std::map<JobId, absl::Time> needed_at_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_CODE_USE_H_
