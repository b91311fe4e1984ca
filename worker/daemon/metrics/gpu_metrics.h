// The part of /metrics about the node's GPUs (names: metric_families.h). An unknown value has no
// series.
//
// Thread-safe: the thread that reads the GPUs calls Set.
#ifndef WORKER_DAEMON_METRICS_GPU_METRICS_H_
#define WORKER_DAEMON_METRICS_GPU_METRICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metric_registry.h"

namespace paceline {

// What the driver reports about a GPU now; units are in the names of the families.
struct GpuFigures {
  int index = 0;
  std::string uuid;
  std::optional<double> utilization;
  std::optional<int64_t> memory_used;
  std::optional<int64_t> memory_capacity;
  std::optional<int> celsius;
  std::optional<double> joules;  // Only grows.
  std::optional<double> sm_hertz;
  std::optional<bool> throttled;
  std::optional<int64_t> ecc_errors;
  std::optional<bool> row_remap_failed;
};

class GpuMetrics {
 public:
  // `registry` outlives this object.
  explicit GpuMetrics(MetricRegistry& registry);

  // `gpus` are all GPUs of the node, the same in each call. `now`: wall clock.
  void Set(const std::vector<GpuFigures>& gpus, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::vector<Gauges*> gauges_;
  Counters& energy_;
  Gauges& last_read_;

  absl::Mutex mutex_;  // Only one thread at a time may raise the energy counters.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_METRICS_GPU_METRICS_H_
