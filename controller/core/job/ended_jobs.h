// Which jobs have ended, the oldest first, and how many ranks they had together: each of them keeps
// its last report, so that it is by ranks that old jobs take memory.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_JOB_ENDED_JOBS_H_
#define CONTROLLER_CORE_JOB_ENDED_JOBS_H_

#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "common/core/ids.h"

namespace paceline {

class EndedJobs {
 public:
  // The job has ended then (wall), with so many trainers.
  void Set(const JobId& job, absl::Time ended, size_t ranks) {
    const auto known = by_job_.find(job);
    if (known != by_job_.end() && known->second.time == ended && known->second.ranks == ranks) {
      return;
    }
    Remove(job);
    by_job_.emplace(job, Ended{ended, ranks});
    by_time_.emplace(ended, job);
    ranks_ += ranks;
  }

  // The job goes on, or is forgotten; if it had ended.
  void Remove(const JobId& job) {
    const auto known = by_job_.find(job);
    if (known == by_job_.end()) return;
    by_time_.erase({known->second.time, job});
    ranks_ -= known->second.ranks;
    by_job_.erase(known);
  }

  size_t size() const { return by_job_.size(); }
  // Of all of them.
  size_t ranks() const { return ranks_; }
  // The one that ended first. Requires: there is one.
  const JobId& oldest() const { return by_time_.begin()->second; }

 private:
  struct Ended {
    absl::Time time;
    size_t ranks = 0;
  };

  std::map<JobId, Ended> by_job_;
  std::set<std::pair<absl::Time, JobId>> by_time_;
  size_t ranks_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_ENDED_JOBS_H_
