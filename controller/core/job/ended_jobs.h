// The jobs that have ended, oldest first, and how many ranks they had together. Each rank keeps its
// last report, so that the memory of old jobs grows with their ranks.
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
  // Records that the job ended at this wall time with this many trainers.
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

  // The job goes on or is forgotten. Nothing happens if it had not ended.
  void Remove(const JobId& job) {
    const auto known = by_job_.find(job);
    if (known == by_job_.end()) return;
    by_time_.erase({known->second.time, job});
    ranks_ -= known->second.ranks;
    by_job_.erase(known);
  }

  size_t size() const { return by_job_.size(); }
  // Ranks of all these jobs together.
  size_t ranks() const { return ranks_; }
  // The job that ended first. Requires: there is one.
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
