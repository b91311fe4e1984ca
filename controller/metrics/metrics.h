// The controller's metrics (metric_families.h), and when they are updated: events are counted when
// they happen, states are shown once a second (Refresh...).
//
// The series of a job disappear once it has been over for kEndedJobSeries, or once kEndedJobsShown
// others have ended after it.
//
// The methods run on the loop, except for those under "From any thread". A scrape reads the present
// values and never waits for the loop.
#ifndef CONTROLLER_METRICS_METRICS_H_
#define CONTROLLER_METRICS_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/core/moment.h"
#include "common/metrics/metric_registry.h"
#include "common/metrics/process_metrics.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/job_transition.h"
#include "controller/core/stragglers/job/stragglers.h"
#include "controller/metrics/checkpoint_metrics.h"
#include "controller/metrics/job_metrics.h"
#include "controller/metrics/node_metrics.h"
#include "controller/metrics/rpc_metrics.h"
#include "controller/metrics/straggler_metrics.h"
#include "controller/metrics/watch_metrics.h"

namespace paceline {

namespace v1 {
class StepBatch;
}

inline constexpr absl::Duration kEndedJobSeries = absl::Minutes(10);
// The series of a job take some 200 kB of memory, and 5 kB of each scrape.
inline constexpr size_t kEndedJobsShown = 500;
inline constexpr absl::Duration kMetricsRefresh = absl::Seconds(1);

class ControllerMetrics {
 public:
  explicit ControllerMetrics(const std::string& version);

  // Shows the whole cluster; called once after a start.
  void ShowCluster(const Cluster& cluster, Moment now);
  // Shows what changed.
  void ShowChanges(const Cluster& cluster, const Actions& actions, Moment now);
  // Counts decisions about jobs' stragglers.
  void Count(const JobTransitions& happened);
  // Adds steps that one rank of the job, named in the batch, has finished.
  void AddSteps(const JobId& job, const v1::StepBatch& batch);
  // Adds lost step records; `records` is at least 0.
  void AddDropped(int64_t records) { dropped_.Increment(static_cast<double>(records)); }
  // Shows all nodes in their present state. Returns the jobs that are shown, for RefreshJob.
  std::vector<JobId> RefreshNodes(const Cluster& cluster);
  // Shows the job's present state; removes its series if it ended long ago. Returns its number of
  // ranks.
  int RefreshJob(const JobId& id, const Cluster& cluster, const Stragglers& stragglers, Moment now);

  void EventTaken(absl::Duration took) { events_.Observe(absl::ToDoubleSeconds(took)); }
  void LoopDelayed(absl::Duration delay) { loop_delays_.Observe(absl::ToDoubleSeconds(delay)); }
  // Longest queues since the last Refresh: tasks for the loop, and batches to be made durable.
  void QueuesSeen(size_t tasks, int64_t batches) {
    loop_queue_.Set(static_cast<double>(tasks));
    commit_queue_.Set(static_cast<double>(batches));
  }
  void Committed(absl::Duration took) { commits_.Observe(absl::ToDoubleSeconds(took)); }
  void RequestReplayed() { replays_.Increment(); }
  void WorkerConnected(bool connected) {
    connected ? sessions_.Increment() : sessions_.Decrement();
  }
  WatchMetrics& job_watches() { return job_watches_; }
  WatchMetrics& node_watches() { return node_watches_; }

  // From any thread:

  // Whether this controller leads; initially false.
  void SetLeads(bool leads) { leader_.Set(leads ? 1 : 0); }
  // None: there is no certificate, or it cannot be read; the value shown before stays.
  void ShowCertificateEnd(std::optional<absl::Time> end);
  // All series in Prometheus' text format. `state_bytes`: size of the store on disk.
  std::string Text(int64_t state_bytes);
  RpcMetrics& rpcs() { return rpcs_; }
  AccessMetrics& access() { return access_; }
  LimitMetrics& limits() { return limits_; }

  // For tests.
  const MetricRegistry& registry() const { return registry_; }

 private:
  std::array<prometheus::Gauge*, 2> NewPauses();
  WatchMetrics NewWatches(const char* resource);
  // Call when a job that is shown has ended.
  void NoteEnd(const Job& job, const Cluster& cluster);
  // Removes the job's series.
  void Remove(const JobId& id);

  MetricRegistry registry_;
  ProcessMetrics process_;
  prometheus::Gauge& leader_;
  Gauges& certificate_ends_;
  prometheus::Histogram& commits_;
  prometheus::Gauge& commit_queue_;
  prometheus::Gauge& state_bytes_;
  prometheus::Histogram& events_;
  prometheus::Histogram& loop_delays_;
  prometheus::Gauge& loop_queue_;
  prometheus::Counter& replays_;
  prometheus::Counter& dropped_;
  prometheus::Gauge& sessions_;
  // Paused by a person, and by the brake.
  std::array<prometheus::Gauge*, 2> automation_paused_;
  Gauges& watch_streams_;
  Counters& watch_resyncs_;
  WatchMetrics job_watches_;
  WatchMetrics node_watches_;

  RpcMetrics rpcs_;
  AccessMetrics access_;
  LimitMetrics limits_;
  QueueMetrics queues_;
  JobMetrics jobs_;
  NodeMetrics nodes_;
  StragglerMetrics stragglers_;
  CheckpointMetrics checkpoints_;
  MembershipMetrics memberships_;
  // Latest ends of the jobs that are shown; a job may have been resumed since.
  std::set<std::pair<absl::Time, JobId>> ended_;
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_METRICS_H_
