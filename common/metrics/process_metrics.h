// The standard process_... metrics of Prometheus' client libraries: processor time, memory, files,
// threads, start. For Linux: read from /proc/self.
//
// Thread-safe: each scrape calls Read.
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
  // Requires: the registry's table has ProcessFamilies. `registry` must outlive this.
  explicit ProcessMetrics(MetricRegistry& registry);

  // Reads /proc again. Values that cannot be read stay the same.
  void Read() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;  // Only one thread at a time may raise the counter.
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
