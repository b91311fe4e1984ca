#include "controller/core/history/job_histories.h"

#include <utility>

#include "controller/core/history/event_text.h"

namespace paceline {

HistoryActions JobHistories::Restore(std::map<JobId, std::vector<JobLifeEvent>> events,
                                     const Cluster& cluster) {
  HistoryActions actions;
  for (const auto& [id, job] : cluster.jobs()) jobs_[id];
  for (auto& [id, stored] : events) {
    const auto found = jobs_.find(id);
    if (found != jobs_.end()) {
      found->second.Restore(std::move(stored));
      continue;
    }
    for (const JobLifeEvent& event : stored) actions.forget.emplace(id, event.id);
  }
  return actions;
}

HistoryActions JobHistories::Take(const Cluster& cluster, const JobTransitions& happened,
                                  const std::set<JobId>& deleted, absl::Time wall_now) {
  HistoryActions actions;
  for (const JobId& id : deleted) {
    const auto known = jobs_.find(id);
    if (known == jobs_.end()) continue;
    for (const auto& [number, event] : known->second.events()) actions.forget.emplace(id, number);
    jobs_.erase(known);
  }
  for (const auto& [id, transitions] : happened) {
    const Job& job = *cluster.FindJob(id);
    const int64_t step = Summarize(job, wall_now).step;
    EventHistory& history = jobs_[id];
    for (JobLifeEvent& event : EventsOf(job, transitions)) {
      event.time = wall_now;
      event.state = job.state;
      event.generation = job.generation;
      event.step = step;
      event.what = EventText(event.what);
      std::vector<int64_t> forgotten;
      actions.store.emplace(id, history.Add(std::move(event), forgotten));
      for (const int64_t number : forgotten) {
        actions.store.erase({id, number});
        actions.forget.emplace(id, number);
      }
    }
  }
  return actions;
}

void JobHistories::Release(const HistoryActions& stored) {
  for (const auto& [id, number] : stored.store) {
    const auto known = jobs_.find(id);
    if (known != jobs_.end()) known->second.Release(number);
  }
}

const EventHistory* JobHistories::Find(const JobId& job) const {
  const auto known = jobs_.find(job);
  return known == jobs_.end() ? nullptr : &known->second;
}

}  // namespace paceline
