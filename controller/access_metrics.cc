#include "controller/access_metrics.h"

#include <cstddef>

namespace paceline {

const char* AccessRefusalLabel(AccessRefusal refusal) {
  constexpr const char* kNames[] = {"no_identity", "bad_certificate", "unknown_token", "revoked",
                                    "role",        "unknown_method"};
  return kNames[static_cast<size_t>(refusal)];
}

AccessMetrics::AccessMetrics(MetricRegistry& registry) {
  Counters& family = registry.NewCounters("paceline_access_refusals_total");
  for (size_t i = 0; i < refusals_.size(); ++i) {
    refusals_[i] = &family.Add({{"reason", AccessRefusalLabel(static_cast<AccessRefusal>(i))}});
  }
}

void AccessMetrics::Refused(AccessRefusal refusal) {
  refusals_[static_cast<size_t>(refusal)]->Increment();
}

}  // namespace paceline
