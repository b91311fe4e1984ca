// What is found without a look at all jobs: those that live, wait, recover, have ended, have tasks,
// and those of a node.
#include <map>
#include <set>

#include "controller/core/checkpoint_tasks.h"
#include "controller/core/cluster.h"

namespace paceline {
namespace {

void SetMember(std::set<JobId>& set, const JobId& id, bool is_member) {
  if (is_member) {
    set.insert(id);
  } else {
    set.erase(id);
  }
}

}  // namespace

void Cluster::IndexAll() {
  for (const auto& [id, job] : jobs_) IndexJob(id);
  for (const auto& [name, node] : nodes_) {
    if (node.holds.empty()) {
      held_.erase(name);
    } else {
      held_.insert(name);
    }
  }
}

void Cluster::IndexTouched(const Actions& actions) {
  for (const JobId& id : touched_) IndexJob(id);
  for (const JobId& id : actions.show_jobs) IndexJob(id);
}

void Cluster::IndexJob(const JobId& id) {
  Job* const job = Find(id);
  const bool is_live = job != nullptr && !job->ended_already();
  if (is_live) {
    live_[id] = job;
  } else {
    live_.erase(id);
  }
  if (job != nullptr && !is_live) {
    ended_.Set(id, job->ended, job->ranks.size());
  } else {
    ended_.Remove(id);
  }
  SetMember(queued_, id, is_live && job->state == JobState::kQueued);
  SetMember(recovering_, id, is_live && job->state == JobState::kRecovering);
  SetMember(with_tasks_, id, job != nullptr && !TasksOf(*job).empty());
  IndexNodesOf(id, is_live ? job : nullptr);
}

void Cluster::IndexNodesOf(const JobId& id, Job* live) {
  const auto known = nodes_of_.find(id);
  if (known != nodes_of_.end()) {
    if (live != nullptr && known->second == live->nodes) return;
    for (const NodeName& name : known->second) {
      const auto jobs = jobs_on_.find(name);
      jobs->second.erase(id);
      if (jobs->second.empty()) jobs_on_.erase(jobs);
    }
    nodes_of_.erase(known);
  }
  if (live == nullptr || live->nodes.empty()) return;
  for (const NodeName& name : live->nodes) jobs_on_[name].emplace(id, live);
  nodes_of_.emplace(id, live->nodes);
}

const std::map<JobId, Job*>& Cluster::JobsOn(const NodeName& node) const {
  static const auto& none = *new std::map<JobId, Job*>;
  const auto found = jobs_on_.find(node);
  return found == jobs_on_.end() ? none : found->second;
}

}  // namespace paceline
