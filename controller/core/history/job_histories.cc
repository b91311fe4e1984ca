#include "controller/core/history/job_histories.h"

#include <algorithm>
#include <utility>

#include "controller/core/history/straggler_events.h"

namespace paceline {

HistoryActions JobHistories::Restore(
    std::map<JobId, std::vector<JobLifeEvent>> events, const Cluster& cluster,
    const std::map<JobId, std::vector<RemedyDecision>>& decisions) {
  HistoryActions actions;
  for (const auto& [id, job] : cluster.jobs()) jobs_[id].job = ReportedJob(job);
  for (const auto& [id, stored] : decisions) {
    const auto known = jobs_.find(id);
    if (known == jobs_.end()) continue;
    for (const RemedyDecision& decision : stored) {
      known->second.decisions[decision.id] = decision.state;
    }
  }
  for (auto& [id, stored] : events) {
    const auto found = jobs_.find(id);
    if (found != jobs_.end()) {
      found->second.history.Restore(std::move(stored));
      continue;
    }
    for (const JobLifeEvent& event : stored) actions.forget.emplace(id, event.id);
  }
  return actions;
}

HistoryActions JobHistories::Follow(const Cluster& cluster, const Stragglers& stragglers,
                                    const Actions& stepped, const StragglerActions& decided,
                                    absl::Time wall_now) {
  HistoryActions actions;
  for (const JobId& id : stepped.delete_jobs) {
    const auto known = jobs_.find(id);
    if (known == jobs_.end()) continue;
    for (const auto& [number, event] : known->second.history.events()) {
      actions.forget.emplace(id, number);
    }
    jobs_.erase(known);
  }
  // The order of the events: a verdict leads to a decision, and that to a change of the job.
  std::set<JobId> judged = stepped.show_jobs;
  for (const auto& [id, number] : decided.store) judged.insert(id);
  for (const JobId& id : judged) {
    const Job* job = cluster.FindJob(id);
    if (job != nullptr) LookAtVerdicts(*job, stragglers, jobs_[id], wall_now, actions);
  }
  for (const auto& [id, number] : decided.store) {
    const Job* job = cluster.FindJob(id);
    if (job == nullptr) continue;
    const RemedyDecision& decision = *stragglers.Find(id)->policy().Find(number);
    Reported& reported = jobs_[id];
    const auto [known, is_new] = reported.decisions.emplace(number, decision.state);
    if (!is_new && std::exchange(known->second, decision.state) == decision.state) continue;
    Add(*job, reported, {EventOf(decision)}, wall_now, actions);
  }
  for (const auto& [id, number] : decided.forget) {
    const auto known = jobs_.find(id);
    if (known != jobs_.end()) known->second.decisions.erase(number);
  }
  for (const JobId& id : stepped.show_jobs) {
    const Job* job = cluster.FindJob(id);
    if (job == nullptr) continue;
    Reported& reported = jobs_[id];
    Add(*job, reported, reported.job.Look(*job), wall_now, actions);
  }
  return actions;
}

bool JobHistories::HasNewVerdicts(const JobId& job, const Stragglers& stragglers) const {
  const JobStragglers* known = stragglers.Find(job);
  const auto reported = jobs_.find(job);
  return known != nullptr && reported != jobs_.end() &&
         known->reported().count() > reported->second.verdicts;
}

HistoryActions JobHistories::FollowVerdicts(const JobId& id, const Cluster& cluster,
                                            const Stragglers& stragglers, absl::Time wall_now) {
  HistoryActions actions;
  const Job* job = cluster.FindJob(id);
  if (job != nullptr) LookAtVerdicts(*job, stragglers, jobs_[id], wall_now, actions);
  return actions;
}

void JobHistories::LookAtVerdicts(const Job& job, const Stragglers& stragglers, Reported& reported,
                                  absl::Time wall_now, HistoryActions& actions) {
  const JobStragglers* known = stragglers.Find(job.request.id);
  if (known == nullptr) return;
  const auto& recent = known->reported().recent();
  const int64_t count = known->reported().count();
  const auto news = std::min(static_cast<int64_t>(recent.size()), count - reported.verdicts);
  std::vector<JobLifeEvent> events;
  for (auto at = recent.end() - news; at != recent.end(); ++at) events.push_back(EventOf(*at));
  reported.verdicts = count;
  Add(job, reported, std::move(events), wall_now, actions);
}

void JobHistories::Add(const Job& job, Reported& reported, std::vector<JobLifeEvent> events,
                       absl::Time wall_now, HistoryActions& actions) {
  if (events.empty()) return;
  const int64_t step = Summarize(job, wall_now).step;
  for (JobLifeEvent& event : events) {
    event.time = wall_now;
    event.state = job.state;
    event.generation = job.generation;
    event.step = step;
    event.what = EventText(event.what);
    std::vector<int64_t> forgotten;
    actions.store.emplace(job.request.id, reported.history.Add(std::move(event), forgotten));
    for (const int64_t id : forgotten) {
      actions.store.erase({job.request.id, id});
      actions.forget.emplace(job.request.id, id);
    }
  }
}

void JobHistories::Release(const HistoryActions& stored) {
  for (const auto& [id, number] : stored.store) {
    const auto known = jobs_.find(id);
    if (known != jobs_.end()) known->second.history.Release(number);
  }
}

const EventHistory* JobHistories::Find(const JobId& job) const {
  const auto known = jobs_.find(job);
  return known == jobs_.end() ? nullptr : &known->second.history;
}

}  // namespace paceline
