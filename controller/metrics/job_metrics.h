// What jobs do: series per job, how jobs pass through the queues, and how their memberships change.
//
// Thread-compatible, except for what Prometheus reads.
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

// Series per job: what it is, what it holds, and what it does. They appear with the job's first
// start; their sums include what it did while it was queued before that.
class JobMetrics {
 public:
  // `registry` outlives this.
  explicit JobMetrics(MetricRegistry& registry);

  // Call when the job has changed, or was found at the start of the controller.
  void Follow(const Job& job, Moment now);
  // Adds steps that one rank of the job, named in the batch, has finished.
  void AddSteps(const JobId& job, const v1::StepBatch& batch);
  // Shows the job's present state, if it has begun.
  void Show(const Job& job, Moment now);
  // Removes the series and forgets the job.
  void Forget(const JobId& id);

  // Jobs with series; sorted.
  std::vector<JobId> Shown() const;
  bool Shows(const JobId& id) const;

 private:
  // Order of roles: active, spare, leaving.
  static constexpr size_t kRoles = 3;

  // Series of one job; removed together.
  struct Series {
    std::array<prometheus::Gauge*, kJobStates> states;
    prometheus::Gauge* info;
    prometheus::Gauge* created;
    prometheus::Gauge* attempt;
    prometheus::Gauge* generation;
    prometheus::Gauge* version;
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
    std::vector<prometheus::Counter*> phases;  // Indexed by number of the phase.
    std::array<prometheus::Counter*, kTimeCategories> times;
    // Null until they are known.
    prometheus::Gauge* loss = nullptr;
    prometheus::Counter* tokens = nullptr;
    prometheus::Gauge* tokens_per_second = nullptr;
    prometheus::Gauge* mfu = nullptr;
    prometheus::Gauge* flops = nullptr;
    prometheus::Gauge* accuracy = nullptr;
    prometheus::Gauge* evaluation_loss = nullptr;
    prometheus::Gauge* progressed = nullptr;
    FlopsSource flops_source = FlopsSource::kUnknown;  // That `flops` is labelled with.
  };
  struct Known {
    explicit Known(const JobAccount& begun) : account(begun) {}
    JobAccount account;
    std::unique_ptr<Series> series;  // Null until it begins.
  };

  void Begin(const Job& job, Series& series);
  void ShowProgress(const Job& job, Moment now, Series& series);
  void ShowFlops(const JobId& id, const JobProgress& progress, double pace, Series& series);
  void ShowTrainers(const Job& job, Series& series);
  void Remove(Series& series);

  Gauges& info_;
  Gauges& states_;
  Gauges& created_;
  Gauges& attempt_;
  Gauges& generation_;
  Gauges& version_;
  Gauges& ranks_;
  Gauges& nodes_;
  Gauges& spares_wanted_;
  Gauges& gpus_;
  Gauges& step_;
  Gauges& loss_;
  Gauges& samples_per_second_;
  Gauges& tokens_per_second_;
  Gauges& mfu_;
  Gauges& flops_;
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

  // Jobs that are not over, or are shown. A hash map, since each batch of steps looks its job up.
  absl::node_hash_map<JobId, Known> jobs_;
};

// How many jobs are in each state, how long they waited and took to start, how they ended, and how
// often they were restarted.
class QueueMetrics {
 public:
  // `registry` outlives this.
  explicit QueueMetrics(MetricRegistry& registry);

  // Sets queues that are shown even if they have no job.
  void SetQueues(const Queues& queues);
  // Takes in a job from before the start; what it did before is not counted again.
  void Begin(const Job& job);
  // Counts what happened to the job since the last call. Returns whether its state changed.
  bool Count(const Job& job);
  void Forget(const JobId& id);

 private:
  // What was last counted of a job.
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

  // Takes in a job from before the start; what it did before is not counted again.
  void Begin(const Job& job);
  // Counts what has happened to the job since the last call.
  void Count(const Job& job);
  void Forget(const JobId& id) { counted_.erase(id); }

 private:
  // Newest generations of a job that were counted as begun, and as done.
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
