// The histories of all jobs: what the cluster and its stragglers have come to goes in, and what is
// to be stored comes out.
//
// Who uses it stores the events with what they tell of, in one transaction, and releases them when
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
#include "controller/core/history/told_job.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

struct HistoryActions {
  // An event of a job.
  using Key = std::pair<JobId, int64_t>;

  std::set<Key> store;   // As Find(job)->Find(id) has it.
  std::set<Key> forget;  // No longer known.
};

class JobHistories {
 public:
  // Takes over what was stored, by job and id, after the cluster has and before the stragglers do.
  // All that was stored counts as told. Forgets events of jobs that are gone.
  HistoryActions Restore(std::map<JobId, std::vector<JobLifeEvent>> events, const Cluster& cluster,
                         const std::map<JobId, std::vector<RemedyDecision>>& decisions);

  // Looks at what may have happened to the jobs of `actions` and `decided`, and at the verdicts
  // about them. `wall_now` dates the events.
  HistoryActions Follow(const Cluster& cluster, const Stragglers& stragglers,
                        const Actions& actions, const StragglerActions& decided,
                        absl::Time wall_now);

  // Whether verdicts about the job's ranks have been told that Follow has not seen.
  bool HasNewVerdicts(const JobId& job, const Stragglers& stragglers) const;
  // Follow for them alone.
  HistoryActions FollowVerdicts(const JobId& job, const Cluster& cluster,
                                const Stragglers& stragglers, absl::Time wall_now);

  // The events that an earlier call had stored are durable.
  void Release(const HistoryActions& stored);

  // Null: there is no such job. Valid until the job is deleted.
  const EventHistory* Find(const JobId& job) const;

 private:
  struct Told {
    EventHistory history;
    ToldJob job;
    std::map<int64_t, DecisionState> decisions;
    int64_t verdicts = 0;  // ToldVerdicts::count.
  };

  void Add(const Job& job, Told& told, std::vector<JobLifeEvent> events, absl::Time wall_now,
           HistoryActions& actions);
  void LookAtVerdicts(const Job& job, const Stragglers& stragglers, Told& told, absl::Time wall_now,
                      HistoryActions& actions);

  // Each batch of steps looks its job up. Has no order, and nothing looks at all.
  absl::node_hash_map<JobId, Told> jobs_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_HISTORY_JOB_HISTORIES_H_
