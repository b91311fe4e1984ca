// What Prometheus' client libraries tell of a process, by the same names (process_...): processor
// time, memory, files, threads, start. Linux: read from /proc/self.
//
// Thread-safe: Read is called by whoever scrapes.
#ifndef COMMON_METRICS_PROCESS_METRICS_H_
#define COMMON_METRICS_PROCESS_METRICS_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/metrics/metric_registry.h"

namespace paceline {

// Rows for the program's table.
std::vector<MetricFamily> ProcessFamilies();

class ProcessMetrics {
 public:
  // Requires: ProcessFamilies are in the registry's table. `registry` outlives this.
  explicit ProcessMetrics(MetricRegistry& registry);

  // Reads /proc anew. What cannot be read keeps its last value.
  void Read() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;  // The counter is raised by one thread at a time.
  prometheus::Counter& cpu_ ABSL_GUARDED_BY(mutex_);
  prometheus::Gauge& resident_;
  prometheus::Gauge& virtual_;
  prometheus::Gauge& threads_;
  prometheus::Gauge& open_files_;
  prometheus::Gauge& max_files_;
  prometheus::Gauge& start_;
};

}  // namespace paceline

#endif  // COMMON_METRICS_PROCESS_METRICS_H_
