// Calls that the controller does not let in.
//
// Thread-safe.
#ifndef CONTROLLER_ACCESS_METRICS_H_
#define CONTROLLER_ACCESS_METRICS_H_

#include <array>

#include "common/metrics/metric_registry.h"

namespace paceline {

// What was missing.
enum class AccessRefusal {
  kNoIdentity,      // The method wants to know who asks.
  kBadCertificate,  // It is the cluster's, and names nobody or has ended.
  kUnknownToken,
  kRevoked,
  kRole,  // The caller's is too low, or another.
  kUnknownMethod,
};

// "no_identity", as in the label.
const char* AccessRefusalLabel(AccessRefusal refusal);

class AccessMetrics {
 public:
  // `registry` outlives this.
  explicit AccessMetrics(MetricRegistry& registry);

  void Refused(AccessRefusal refusal);

 private:
  std::array<prometheus::Counter*, 6> refusals_;  // By AccessRefusal.
};

}  // namespace paceline

#endif  // CONTROLLER_ACCESS_METRICS_H_
