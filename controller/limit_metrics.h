// What the controller's limits have refused, or ended (docs/limits.md).
//
// Not counted is what gRPC refuses by itself: messages and headers that are too long, connections
// that do not begin, streams of reflection that there is no thread for.
//
// Thread-safe.
#ifndef CONTROLLER_LIMIT_METRICS_H_
#define CONTROLLER_LIMIT_METRICS_H_

#include <array>

#include "common/metrics/metric_registry.h"

namespace paceline {

enum class Limit {
  kCallRate,          // Calls of any kind of one caller.
  kMutationRate,      // Changes of one caller.
  kStreamsPerCaller,  // Watches and logs.
  kStreams,
  kSlowReader,  // A watch, log or backup that nobody reads.
  kOpenJobs,
  kOpenJobsPerSubmitter,
  kJobSize,
  kRequestSize,    // Of another request.
  kSessionHello,   // A worker's session without a hello in time.
  kNodeSize,       // A hello of a node that cannot be.
  kSessions,       // Of one node's certificate.
  kWorkerMessage,  // That is no message, or too large.
  kWorkerRate,     // A worker that says too much: it has to wait.
  kWorkerBacklog,  // A worker that does not read.
  kLogReaders,     // Of one node.
  kHttpConnections,
  kHttpStreams,
};

// "mutation_rate", as in the label.
const char* LimitLabel(Limit limit);

class LimitMetrics {
 public:
  // `registry` outlives this.
  explicit LimitMetrics(MetricRegistry& registry);

  void Refused(Limit limit);

 private:
  std::array<prometheus::Counter*, 18> refusals_;  // By Limit.
};

}  // namespace paceline

#endif  // CONTROLLER_LIMIT_METRICS_H_
