// The histories of all jobs. What the cluster did and what was found about stragglers goes in; the
// events to be stored come out.
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
#include "controller/core/history/reported_job.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

struct HistoryActions {
  // A job, and the id of one of its events.
  using Key = std::pair<JobId, int64_t>;

  std::set<Key> store;   // As Find(job)->Find(id) returns them.
  std::set<Key> forget;  // Events that are no longer kept.
};

class JobHistories {
 public:
  // Takes over the stored events, by job and id. Call it after the cluster was restored and before
  // the stragglers are. What was stored counts as shown. Forgets events of jobs that are gone.
  HistoryActions Restore(std::map<JobId, std::vector<JobLifeEvent>> events, const Cluster& cluster,
                         const std::map<JobId, std::vector<RemedyDecision>>& decisions);

  // Adds the events of the jobs in `actions` and `decided`, and of the verdicts about them.
  // `wall_now` dates the events.
  HistoryActions Follow(const Cluster& cluster, const Stragglers& stragglers,
                        const Actions& actions, const StragglerActions& decided,
                        absl::Time wall_now);

  // Whether there are verdicts about the job's ranks that Follow has not seen.
  bool HasNewVerdicts(const JobId& job, const Stragglers& stragglers) const;
  // As Follow, for these verdicts alone.
  HistoryActions FollowVerdicts(const JobId& job, const Cluster& cluster,
                                const Stragglers& stragglers, absl::Time wall_now);

  // Says that the events of an earlier call, now stored, are durable.
  void Release(const HistoryActions& stored);

  // Null: there is no such job. Valid until the job is deleted.
  const EventHistory* Find(const JobId& job) const;

 private:
  struct Reported {
    EventHistory history;
    ReportedJob job;
    std::map<int64_t, DecisionState> decisions;
    int64_t verdicts = 0;  // ReportedVerdicts::count.
  };

  void Add(const Job& job, Reported& reported, std::vector<JobLifeEvent> events,
           absl::Time wall_now, HistoryActions& actions);
  void LookAtVerdicts(const Job& job, const Stragglers& stragglers, Reported& reported,
                      absl::Time wall_now, HistoryActions& actions);

  // Each batch of steps looks its job up here. Never iterated: it has no order.
  absl::node_hash_map<JobId, Reported> jobs_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_JOB_HISTORIES_H_
