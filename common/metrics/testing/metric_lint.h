// Checks a table of metric families by Prometheus' naming rules and ours. Returns a line for each
// fault; empty: none. For tests.
#ifndef COMMON_METRICS_TESTING_METRIC_LINT_H_
#define COMMON_METRICS_TESTING_METRIC_LINT_H_

#include <string>
#include <vector>

#include "common/metrics/metric_family.h"

namespace paceline {

std::vector<std::string> LintMetrics(const std::vector<MetricFamily>& families);

}  // namespace paceline

#endif  // COMMON_METRICS_TESTING_METRIC_LINT_H_
