// The controller's metrics: every family, in one place.
//
// Series of a job disappear when the job has ended for kEndedJobSeries.
//
// The methods run on the loop; Text is thread-safe.
#ifndef CONTROLLER_METRICS_H_
#define CONTROLLER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/checkpoint_metrics.h"
#include "controller/core/cluster.h"
#include "controller/membership_metrics.h"
#include "proto/worker.pb.h"

namespace paceline {

inline constexpr absl::Duration kEndedJobSeries = absl::Minutes(10);

class ControllerMetrics {
 public:
  explicit ControllerMetrics(const std::string& version);

  // All series in Prometheus' text format.
  std::string Text() const;

  // The whole cluster; once, after a start.
  void ShowCluster(const Cluster& cluster);
  // What changed.
  void ShowChanges(const Cluster& cluster, const Actions& actions);
  // Steps that a rank has finished.
  void AddSteps(const v1::StepBatch& batch);
  void Committed(absl::Duration took);
  void RequestReplayed();
  void WorkerConnected(bool connected);

 private:
  template <typename Metric>
  using Family = prometheus::Family<Metric>;

  // The series of one job.
  struct JobSeries {
    prometheus::Gauge* step = nullptr;
    prometheus::Gauge* loss = nullptr;
    prometheus::Gauge* samples_per_second = nullptr;
    // Null until they are known.
    prometheus::Gauge* tokens_per_second = nullptr;
    prometheus::Gauge* mfu = nullptr;
    prometheus::Gauge* accuracy = nullptr;
    prometheus::Histogram* step_duration = nullptr;
    std::vector<prometheus::Counter*> phase_seconds;  // By phase number.
    absl::Time ended = absl::InfiniteFuture();
  };

  void ShowJob(const Job& job);
  void CountStates(const Cluster& cluster);
  void RemoveOldSeries(absl::Time wall_now);
  JobSeries& Series(const std::string& job_id);

  prometheus::Registry registry_;
  Family<prometheus::Gauge>& jobs_;
  Family<prometheus::Gauge>& nodes_;
  Family<prometheus::Counter>& finished_;
  Family<prometheus::Gauge>& step_;
  Family<prometheus::Gauge>& loss_;
  Family<prometheus::Gauge>& samples_;
  Family<prometheus::Gauge>& tokens_;
  Family<prometheus::Gauge>& mfu_;
  Family<prometheus::Gauge>& accuracy_;
  Family<prometheus::Histogram>& step_duration_;
  Family<prometheus::Counter>& phase_seconds_;
  prometheus::Histogram& commit_;
  prometheus::Histogram& start_duration_;
  prometheus::Histogram& queue_wait_;
  prometheus::Counter& replays_;
  prometheus::Counter& dropped_;
  prometheus::Gauge& sessions_;
  prometheus::Gauge& automation_paused_;

  CheckpointMetrics checkpoints_;
  MembershipMetrics memberships_;

  std::map<std::string, JobSeries> series_;
  std::map<JobId, JobState> states_;  // As last counted.
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_H_
