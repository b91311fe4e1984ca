// What is wrong with a table of metric families by Prometheus' rules for names, and ours: a line
// for each fault. Empty: nothing. For tests.
#ifndef COMMON_METRICS_TESTING_METRIC_LINT_H_
#define COMMON_METRICS_TESTING_METRIC_LINT_H_

#include <string>
#include <vector>

#include "common/metrics/metric_family.h"

namespace paceline {

std::vector<std::string> LintMetrics(const std::vector<MetricFamily>& families);

}  // namespace paceline

#endif  // COMMON_METRICS_TESTING_METRIC_LINT_H_
