#include "controller/metrics/metrics.h"

#include <variant>

#include "controller/metrics/metric_families.h"

namespace paceline {

ControllerMetrics::ControllerMetrics(const std::string& version)
    : registry_(ControllerFamilies()),
      process_(registry_),
      leader_(registry_.NewGauges("paceline_controller_leader").Add({})),
      certificate_ends_(registry_.NewGauges("paceline_certificate_expiry_timestamp_seconds")),
      commits_(registry_.NewHistograms("paceline_state_commit_duration_seconds").Add({})),
      commit_queue_(registry_.NewGauges("paceline_state_commit_queue_batches").Add({})),
      state_bytes_(registry_.NewGauges("paceline_state_size_bytes").Add({})),
      events_(registry_.NewHistograms("paceline_controller_event_duration_seconds").Add({})),
      loop_delays_(registry_.NewHistograms("paceline_controller_loop_delay_seconds").Add({})),
      loop_queue_(registry_.NewGauges("paceline_controller_loop_queue_tasks").Add({})),
      replays_(registry_.NewCounters("paceline_request_replays_total").Add({})),
      dropped_(registry_.NewCounters("paceline_telemetry_dropped_total").Add({})),
      sessions_(registry_.NewGauges("paceline_worker_sessions").Add({})),
      automation_paused_(NewPauses()),
      watch_streams_(registry_.NewGauges("paceline_watch_streams")),
      watch_resyncs_(registry_.NewCounters("paceline_watch_resyncs_total")),
      job_watches_(NewWatches("jobs")),
      node_watches_(NewWatches("nodes")),
      rpcs_(registry_),
      access_(registry_),
      limits_(registry_),
      queues_(registry_),
      jobs_(registry_),
      nodes_(registry_),
      stragglers_(registry_),
      checkpoints_(registry_),
      memberships_(registry_) {
  registry_.NewGauges("paceline_build_info")
      .Add({{"component", "controller"}, {"version", version}})
      .Set(1);
}

std::array<prometheus::Gauge*, 2> ControllerMetrics::NewPauses() {
  Gauges& family = registry_.NewGauges("paceline_automation_paused");
  return {&family.Add({{"source", "person"}}), &family.Add({{"source", "automation"}})};
}

WatchMetrics ControllerMetrics::NewWatches(const char* resource) {
  return {watch_streams_.Add({{"resource", resource}}),
          watch_resyncs_.Add({{"resource", resource}})};
}

void ControllerMetrics::ShowCluster(const Cluster& cluster, Moment now) {
  queues_.SetQueues(cluster.options().queues);
  for (const auto& [id, job] : cluster.jobs()) {
    queues_.Begin(job);
    checkpoints_.Begin(job);
    memberships_.Begin(job);
    jobs_.Follow(job, now);
    jobs_.Show(job, now);
  }
  for (const auto& [name, node] : cluster.nodes()) nodes_.Begin(node);
}

void ControllerMetrics::ShowChanges(const Cluster& cluster, const Actions& actions, Moment now) {
  for (const JobId& id : actions.show_jobs) {
    const Job* job = cluster.FindJob(id);
    if (job == nullptr) continue;
    checkpoints_.Count(*job);
    memberships_.Count(*job);
    // A job that only made progress is left to Refresh.
    if (!queues_.Count(*job)) continue;
    jobs_.Follow(*job, now);
    jobs_.Show(*job, now);
    if (job->ended_already() && jobs_.Shows(id)) NoteEnd(*job, cluster);
  }
  for (const JobId& id : actions.delete_jobs) {
    queues_.Forget(id);
    checkpoints_.Forget(id);
    memberships_.Forget(id);
    Remove(id);
  }
  for (const NodeName& name : actions.show_nodes) nodes_.Follow(cluster.nodes().at(name));
}

void ControllerMetrics::NoteEnd(const Job& job, const Cluster& cluster) {
  ended_.emplace(job.ended, job.request.id);
  while (ended_.size() > kEndedJobsShown) {
    const auto [ended, id] = *ended_.begin();
    ended_.erase(ended_.begin());
    const Job* const oldest = cluster.FindJob(id);
    const bool went_on = oldest != nullptr && !(oldest->ended_already() && oldest->ended == ended);
    if (!went_on) Remove(id);
  }
}

void ControllerMetrics::Remove(const JobId& id) {
  jobs_.Forget(id);
  checkpoints_.Remove(id);
  stragglers_.Remove(id);
}

void ControllerMetrics::Count(const JobTransitions& happened) {
  for (const auto& [id, transitions] : happened) {
    if (!jobs_.Shows(id)) continue;  // Otherwise the decision's series would outlive the job's.
    for (const JobTransition& transition : transitions) {
      const auto* changed = std::get_if<transition::DecisionChanged>(&transition);
      if (changed != nullptr) stragglers_.Decided(id, changed->decision);
    }
  }
}

void ControllerMetrics::AddSteps(const JobId& job, const v1::StepBatch& batch) {
  jobs_.AddSteps(job, batch);
}

std::vector<JobId> ControllerMetrics::RefreshNodes(const Cluster& cluster) {
  nodes_.Show(cluster);
  const Automation& automation = cluster.automation();
  const bool by_brake = automation.owner == kBrakeOwner;
  automation_paused_[0]->Set(automation.paused && !by_brake ? 1 : 0);
  automation_paused_[1]->Set(automation.paused && by_brake ? 1 : 0);
  return jobs_.Shown();
}

int ControllerMetrics::RefreshJob(const JobId& id, const Cluster& cluster,
                                  const Stragglers& stragglers, Moment now) {
  const Job* job = cluster.FindJob(id);
  if (job == nullptr) return 0;
  if (job->ended_already() && now.wall - job->ended >= kEndedJobSeries) {
    ended_.erase({job->ended, id});
    Remove(id);
    return 0;
  }
  jobs_.Show(*job, now);
  checkpoints_.Show(*job);
  stragglers_.Show(id, stragglers.Find(id));
  return static_cast<int>(job->ranks.size());
}

void ControllerMetrics::ShowCertificateEnd(std::optional<absl::Time> end) {
  if (!end.has_value()) return;
  certificate_ends_.Add({}).Set(absl::ToDoubleSeconds(*end - absl::UnixEpoch()));
}

std::string ControllerMetrics::Text(int64_t state_bytes) {
  process_.Read();
  state_bytes_.Set(static_cast<double>(state_bytes));
  return registry_.Text();
}

}  // namespace paceline
