// The description of a metric family, independent of its values: one row of a program's table of
// families. The program registers its metrics from the table (metric_registry.h), and
// docs/metrics.md is generated from it.
#ifndef COMMON_METRICS_METRIC_FAMILY_H_
#define COMMON_METRICS_METRIC_FAMILY_H_

#include <vector>

namespace paceline {

enum class MetricType { kCounter, kGauge, kHistogram };

// "counter", "gauge", "histogram".
inline const char* NameOf(MetricType type) {
  constexpr const char* kNames[] = {"counter", "gauge", "histogram"};
  return kNames[static_cast<int>(type)];
}

struct MetricFamily {
  const char* name;
  MetricType type;
  // "seconds", "bytes", "ratio" and so on, or what is counted: "steps". For an info metric "info",
  // for a 0 or 1 "bool".
  const char* unit;
  const char* labels;  // Names separated by spaces, without the target's.
  const char* help;
  std::vector<double> buckets = {};  // Upper bounds of a histogram's buckets, in its unit.
};

}  // namespace paceline

#endif  // COMMON_METRICS_METRIC_FAMILY_H_
