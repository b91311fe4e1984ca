// The metrics that the daemon shows at /metrics (names and units: metric_families.h).
//
// Thread-safe: set on the loop, read by the HTTP threads.
#ifndef WORKER_DAEMON_METRICS_METRICS_H_
#define WORKER_DAEMON_METRICS_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "common/metrics/process_metrics.h"
#include "proto/plan.pb.h"
#include "proto/status.pb.h"
#include "worker/daemon/metrics/figure_metrics.h"
#include "worker/daemon/metrics/gpu_metrics.h"
#include "worker/daemon/metrics/trainer_checkpoint_metrics.h"
#include "worker/ring/step_ring.h"

namespace paceline {

class WorkerMetrics {
 public:
  explicit WorkerMetrics(const std::string& version);
  WorkerMetrics(const WorkerMetrics&) = delete;
  WorkerMetrics& operator=(const WorkerMetrics&) = delete;

  void SetConnected(bool connected, int64_t reconnects);
  void SetTrainers(const std::map<v1::TrainerState, int>& by_state);
  void AddStarted() { started_.Increment(); }
  void AddAdopted() { adopted_.Increment(); }
  void AddEnded(v1::FailureKind kind);
  // Counts a refused connection to the trainers' socket. `cause`: "user" or "process".
  void AddRefused(const std::string& cause);
  void AddDropped(int64_t records) { dropped_.Increment(static_cast<double>(records)); }

  // `phase_ns`: ever-growing totals, by phase.
  void SetTrainer(const TrainerId& id, const v1::Progress& progress,
                  const std::array<uint64_t, kPhases>& phase_ns);
  void SetFigures(const TrainerId& id, const v1::RankFigures& figures, const v1::PlanStatus& plan) {
    figures_.Set(id, figures, plan);
  }
  void SetCheckpoints(const TrainerId& id, const v1::CheckpointFigures& figures) {
    checkpoints_.Set(id, figures);
  }
  // Any thread. Empty: there is no readable certificate, and the shown value stays.
  void ShowCertificateEnd(std::optional<absl::Time> end);
  // Any thread.
  void SetGpus(const std::vector<GpuFigures>& gpus, absl::Time now) { gpus_.Set(gpus, now); }
  // Removes the trainer's metrics.
  void ForgetTrainer(const TrainerId& id);

  // Returns all metrics in Prometheus' text format.
  std::string Text();

  // For tests.
  const MetricRegistry& registry() const { return registry_; }

 private:
  struct Trainer {
    prometheus::Gauge* step;
    prometheus::Gauge* samples;
    prometheus::Gauge* current_phase;
    std::array<prometheus::Counter*, kPhases> phases;
    // Null before the trainer's first step.
    prometheus::Gauge* step_seconds = nullptr;
    prometheus::Gauge* loss = nullptr;
    prometheus::Gauge* evaluated = nullptr;  // Null if the trainer does not evaluate.
  };
  Trainer& TrainerOf(const TrainerId& id);
  void ShowEvaluation(const TrainerId& id, const v1::Progress& progress, Trainer& trainer);

  MetricRegistry registry_;
  ProcessMetrics process_;
  Gauges& certificate_ends_;
  prometheus::Gauge& connected_;
  prometheus::Counter& reconnects_;
  prometheus::Counter& started_;
  prometheus::Counter& adopted_;
  prometheus::Counter& dropped_;
  Gauges& trainers_;
  Counters& ended_;
  Counters& refused_;
  Gauges& step_;
  Gauges& step_seconds_;
  Gauges& samples_;
  Gauges& loss_;
  Gauges& current_phase_;
  Gauges& evaluated_;
  Counters& phases_;

  // Owned by the loop.
  std::map<TrainerId, Trainer> shown_;
  FigureMetrics figures_{registry_};
  TrainerCheckpointMetrics checkpoints_{registry_};
  GpuMetrics gpus_{registry_};
};

}  // namespace paceline

#endif  // WORKER_DAEMON_METRICS_METRICS_H_
