// What a program tells of a metric family before it measures anything: one row of the program's
// table of families, of which it registers its metrics (metric_registry.h) and docs/metrics.md is
// made.
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
  // "seconds", "bytes", "ratio" and so on, or what is counted: "steps". Of an info metric: "info",
  // of a 0 or 1 "bool".
  const char* unit;
  const char* labels;  // Names, separated by spaces; without those of the target.
  const char* help;
  std::vector<double> buckets = {};  // Upper bounds of a histogram's buckets, in its unit.
};

}  // namespace paceline

#endif  // COMMON_METRICS_METRIC_FAMILY_H_
