// What jobs do: the series of each one, how they go through the queues, and how their memberships
// change.
//
// Thread-compatible, but for what Prometheus reads.
#ifndef CONTROLLER_METRICS_JOB_METRICS_H_
#define CONTROLLER_METRICS_JOB_METRICS_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "common/metrics/metric_registry.h"
#include "controller/core/job/job.h"
#include "controller/core/job/job_account.h"
#include "controller/core/schedule/queue.h"
#include "controller/metrics/checkpoint_metrics.h"
#include "controller/metrics/metric_labels.h"

namespace paceline {

namespace v1 {
class StepBatch;
}

// The series of each job that has begun: what it is, holds, and does. They appear with its first
// start; what it did while it was queued before that is in its sums.
class JobMetrics {
 public:
  // `registry` outlives this.
  explicit JobMetrics(MetricRegistry& registry);

  // The job has changed, or was found at the start of the controller.
  void Follow(const Job& job, Moment now);
  // A rank of the job, which the batch names, has finished steps.
  void AddSteps(const JobId& job, const v1::StepBatch& batch);
  // Shows the job as it is now, if it has begun.
  void Show(const Job& job, Moment now);
  // Takes the series away, and forgets the job.
  void Forget(const JobId& id);

  // Jobs with series; sorted.
  std::vector<JobId> Shown() const;
  bool Shows(const JobId& id) const;

 private:
  // In the order of roles: active, spare, leaving.
  static constexpr size_t kRoles = 3;

  // Of one job; all of its own, and removed with it.
  struct Series {
    std::array<prometheus::Gauge*, kJobStates> states;
    prometheus::Gauge* info;
    prometheus::Gauge* created;
    prometheus::Gauge* attempt;
    prometheus::Gauge* generation;
    prometheus::Gauge* epoch;
    std::array<prometheus::Gauge*, kRoles> ranks;
    std::array<prometheus::Gauge*, kRoles> nodes;
    prometheus::Gauge* spares_wanted;
    prometheus::Gauge* gpus;
    prometheus::Gauge* step;
    prometheus::Gauge* samples_per_second;
    prometheus::Counter* steps_executed;
    prometheus::Counter* steps_lost;
    prometheus::Counter* samples;
    prometheus::Histogram* step_duration;
    std::vector<prometheus::Counter*> phases;  // By number of the phase.
    std::array<prometheus::Counter*, kTimeCategories> times;
    // Null until they are known.
    prometheus::Gauge* loss = nullptr;
    prometheus::Counter* tokens = nullptr;
    prometheus::Gauge* tokens_per_second = nullptr;
    prometheus::Gauge* mfu = nullptr;
    prometheus::Gauge* accuracy = nullptr;
    prometheus::Gauge* evaluation_loss = nullptr;
    prometheus::Gauge* progressed = nullptr;
  };
  struct Known {
    explicit Known(const JobAccount& begun) : account(begun) {}
    JobAccount account;
    std::unique_ptr<Series> series;  // Null before it has begun.
  };

  void Begin(const Job& job, Series& series);
  void ShowProgress(const Job& job, Moment now, Series& series);
  void ShowTrainers(const Job& job, Series& series);
  void Remove(Series& series);

  Gauges& info_;
  Gauges& states_;
  Gauges& created_;
  Gauges& attempt_;
  Gauges& generation_;
  Gauges& epoch_;
  Gauges& ranks_;
  Gauges& nodes_;
  Gauges& spares_wanted_;
  Gauges& gpus_;
  Gauges& step_;
  Gauges& loss_;
  Gauges& samples_per_second_;
  Gauges& tokens_per_second_;
  Gauges& mfu_;
  Gauges& accuracy_;
  Gauges& evaluation_loss_;
  Gauges& progressed_;
  Counters& steps_executed_;
  Counters& steps_lost_;
  Counters& samples_;
  Counters& tokens_;
  Histograms step_duration_;
  Counters& phases_;
  Counters& times_;

  // That are not over, or are shown. By hash: each batch of steps looks its job up.
  absl::node_hash_map<JobId, Known> jobs_;
};

// How many jobs are in each state, how long they waited and started, how they ended, and how often
// they were restarted.
class QueueMetrics {
 public:
  // `registry` outlives this.
  explicit QueueMetrics(MetricRegistry& registry);

  // Queues that are shown although they have no job.
  void SetQueues(const Queues& queues);
  // A job from before the start: what it has done is not counted again.
  void Begin(const Job& job);
  // Counts what has happened to the job since the last call. True: it is in another state.
  bool Count(const Job& job);
  void Forget(const JobId& id);

 private:
  // Of a job, as last counted.
  struct Counted {
    std::string queue;
    JobState state = JobState::kQueued;
    int restarts = 0;
  };
  struct Queued {
    std::array<prometheus::Gauge*, kJobStates> jobs;
    prometheus::Histogram* wait;
    prometheus::Histogram* start;
  };

  Queued& Get(const std::string& queue);
  prometheus::Gauge& JobsIn(const Counted& job) {
    return *Get(job.queue).jobs[static_cast<size_t>(job.state)];
  }

  Gauges& jobs_;
  Histograms wait_;
  Histograms start_;
  Counters& finished_;
  Counters& restarts_;

  std::map<std::string, Queued> queues_;
  std::map<JobId, Counted> counted_;
};

// Changes of membership, of all jobs together.
class MembershipMetrics {
 public:
  // `registry` outlives this.
  explicit MembershipMetrics(MetricRegistry& registry);

  // A job from before the start: what it has done is not counted again.
  void Begin(const Job& job);
  // Counts what has happened to the job since the last call.
  void Count(const Job& job);
  void Forget(const JobId& id) { counted_.erase(id); }

 private:
  // Of a job: the newest generations that were counted as begun, and as done.
  struct Counted {
    Generation begun{0};
    Generation done{0};
  };

  Counters& changes_;
  Histograms durations_;
  std::map<JobId, Counted> counted_;
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_JOB_METRICS_H_
