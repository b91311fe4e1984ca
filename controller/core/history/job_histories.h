// The histories of all jobs. What has happened to them goes in; the events to be stored come out.
//
// The caller stores the events in one transaction with what they are about, and releases them when
// that is durable (control_loop.cc).
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_HISTORY_JOB_HISTORIES_H_
#define CONTROLLER_CORE_HISTORY_JOB_HISTORIES_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/event_history.h"
#include "controller/core/history/job_transition.h"

namespace paceline {

struct HistoryActions {
  // A job, and the id of one of its events.
  using Key = std::pair<JobId, int64_t>;

  std::set<Key> store;   // As Find(job)->Find(id) returns them.
  std::set<Key> forget;  // Events that are no longer kept.
};

class JobHistories {
 public:
  // Takes over the stored events, by job and id. Call it after the cluster was restored. What was
  // stored counts as shown. Forgets events of jobs that are gone.
  HistoryActions Restore(std::map<JobId, std::vector<JobLifeEvent>> events, const Cluster& cluster);

  // Adds events of what has happened to jobs of the cluster, and drops the histories of jobs that
  // were deleted. `wall_now` dates the events. Requires: the jobs are as they were when this was
  // found.
  HistoryActions Take(const Cluster& cluster, const JobTransitions& happened,
                      const std::set<JobId>& deleted, absl::Time wall_now);

  // Says that the events of an earlier call, now stored, are durable.
  void Release(const HistoryActions& stored);

  // Null: there is no such job. Valid until the job is deleted.
  const EventHistory* Find(const JobId& job) const;

 private:
  // Never iterated: it has no order.
  absl::node_hash_map<JobId, EventHistory> jobs_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_JOB_HISTORIES_H_
