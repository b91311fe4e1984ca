#include "controller/core/cluster/job_table.h"

#include <utility>

#include "controller/core/checkpoint/checkpoint_tasks.h"

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

Job& JobTable::Insert(Job job) {
  const JobId id = job.request.id;
  Job& inserted = jobs_.emplace(id, std::move(job)).first->second;
  by_id_[id] = &inserted;
  by_name_[inserted.request.name].emplace(inserted.number, &inserted);
  changed_.insert(id);
  return inserted;
}

void JobTable::Remove(const JobId& id) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  const auto named = by_name_.find(job->second.request.name);
  if (named != by_name_.end() && named->second.erase(job->second.number) > 0 &&
      named->second.empty()) {
    by_name_.erase(named);
  }
  changed_.insert(id);
  by_id_.erase(id);
  jobs_.erase(job);
  RefreshIndexes();  // None may point to it.
}

const Job* JobTable::Find(const JobId& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Job* JobTable::Change(const JobId& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  changed_.insert(id);
  return found->second;
}

std::map<JobId, Job>& JobTable::ChangeAll() {
  changed_.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) changed_.insert(id);
  return jobs_;
}

const std::map<int64_t, const Job*>* JobTable::Named(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

const std::map<JobId, const Job*>& JobTable::On(const NodeName& node) const {
  static const auto& none = *new std::map<JobId, const Job*>;
  RefreshIndexes();
  const auto found = on_.find(node);
  return found == on_.end() ? none : found->second;
}

absl::Time JobTable::NextDeadline() const {
  RefreshIndexes();
  if (undated_.empty()) return deadlines_.Next();
  for (const JobId& id : undated_) {
    const Job* const job = Find(id);
    deadlines_.Set(id, job == nullptr ? absl::InfiniteFuture() : paceline::NextDeadline(*job));
  }
  undated_.clear();
  return deadlines_.Next();
}

void JobTable::RefreshIndexes() const {
  if (changed_.empty()) return;
  for (const JobId& id : changed_) Index(id);
  undated_.merge(changed_);
  changed_.clear();
}

void JobTable::Index(const JobId& id) const {
  const Job* const job = Find(id);
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

void JobTable::IndexNodesOf(const JobId& id, const Job* live) const {
  const auto known = nodes_of_.find(id);
  if (known != nodes_of_.end()) {
    if (live != nullptr && known->second == live->nodes) return;
    for (const NodeName& name : known->second) {
      const auto jobs = on_.find(name);
      jobs->second.erase(id);
      if (jobs->second.empty()) on_.erase(jobs);
    }
    nodes_of_.erase(known);
  }
  if (live == nullptr || live->nodes.empty()) return;
  for (const NodeName& name : live->nodes) on_[name].emplace(id, live);
  nodes_of_.emplace(id, live->nodes);
}

}  // namespace paceline
