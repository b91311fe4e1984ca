// All jobs, and indexes of them: most events are reports, which come from each node every second
// and must not cost a look at all jobs.
//
// A job can only be changed by way of this table, which so knows what changed. An index is brought
// up to date when it is read. So finish a change before you read one, and do not read one again
// while you iterate over it and change jobs.
//
// Thread-compatible; after Refresh and until the next change, thread-safe.
#ifndef CONTROLLER_CORE_CLUSTER_JOB_TABLE_H_
#define CONTROLLER_CORE_CLUSTER_JOB_TABLE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster/deadlines.h"
#include "controller/core/job/ended_jobs.h"
#include "controller/core/job/job.h"

namespace paceline {

class JobTable {
 public:
  JobTable() = default;
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  // Adds the job, or returns the one that has its id already. Valid until it is removed.
  Job& Insert(Job job);
  void Remove(const JobId& id);

  // Null: there is no such job. Looks it up by hash, as each message of a worker needs it. Valid
  // until the job is removed.
  const Job* Find(const JobId& id) const;
  // The same, for a change.
  Job* Change(const JobId& id);
  // All jobs, for changes.
  std::map<JobId, Job>& ChangeAll();

  const std::map<JobId, Job>& all() const { return jobs_; }
  // The jobs of that name, by number: the last is the newest. Null: there is none. Valid as above.
  const std::map<int64_t, const Job*>* Named(const std::string& name) const;

  // Indexes. Live jobs have not ended.
  const std::map<JobId, const Job*>& live() const { return Refreshed().live_; }
  const std::set<JobId>& queued() const { return Refreshed().queued_; }
  const std::set<JobId>& recovering() const { return Refreshed().recovering_; }
  const EndedJobs& ended() const { return Refreshed().ended_; }
  // Jobs that have work in their checkpoint directories.
  const std::set<JobId>& with_tasks() const { return Refreshed().with_tasks_; }
  // Live jobs that use the node.
  const std::map<JobId, const Job*>& On(const NodeName& node) const;

  // When the first job has something to do (job.h); infinite future: never. Steady.
  absl::Time NextDeadline() const;

  // Brings everything up to date.
  void Refresh() const { NextDeadline(); }

 private:
  const JobTable& Refreshed() const {
    RefreshIndexes();
    return *this;
  }
  void RefreshIndexes() const;
  void Index(const JobId& id) const;
  void IndexNodesOf(const JobId& id, const Job* live) const;

  std::map<JobId, Job> jobs_;
  absl::flat_hash_map<JobId, Job*> by_id_;  // Never iterated: it has no order.
  absl::flat_hash_map<std::string, std::map<int64_t, const Job*>> by_name_;

  // Jobs that were changed or removed since the indexes, or the deadlines, were up to date.
  mutable absl::flat_hash_set<JobId> changed_;
  mutable absl::flat_hash_set<JobId> undated_;
  mutable std::map<JobId, const Job*> live_;
  mutable std::set<JobId> queued_;
  mutable std::set<JobId> recovering_;
  mutable EndedJobs ended_;
  mutable std::set<JobId> with_tasks_;
  // The live jobs that use each node; and the inverse, as Job::nodes was then.
  mutable std::map<NodeName, std::map<JobId, const Job*>> on_;
  mutable std::map<JobId, std::vector<NodeName>> nodes_of_;
  mutable Deadlines<JobId> deadlines_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CLUSTER_JOB_TABLE_H_
