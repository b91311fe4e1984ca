// The metrics of a program: families are registered by their names in the program's table, so that
// name, help and buckets stand in one place.
//
// Registering ends the process when the table has no such family, or it is of another type: that is
// a mistake in the program, which every start of it finds.
//
// Thread-compatible while families are registered, Text is thread-safe. The families and metrics
// are prometheus-cpp's, which are thread-safe; they live as long as the registry.
#ifndef COMMON_METRICS_METRIC_REGISTRY_H_
#define COMMON_METRICS_METRIC_REGISTRY_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <set>
#include <string>
#include <vector>

#include "common/metrics/metric_family.h"

namespace paceline {

using Gauges = prometheus::Family<prometheus::Gauge>;
using Counters = prometheus::Family<prometheus::Counter>;

class Histograms {
 public:
  Histograms(prometheus::Family<prometheus::Histogram>& family, const std::vector<double>& buckets)
      : family_(family), buckets_(buckets) {}

  prometheus::Histogram& Add(const prometheus::Labels& labels) {
    return family_.Add(labels, buckets_);
  }
  void Remove(prometheus::Histogram* histogram) { family_.Remove(histogram); }

 private:
  prometheus::Family<prometheus::Histogram>& family_;
  const std::vector<double> buckets_;
};

// Raises a counter to a total that was counted elsewhere, and never lowers it.
void RaiseTo(prometheus::Counter& counter, double total);

class MetricRegistry {
 public:
  // `families` outlives this.
  explicit MetricRegistry(const std::vector<MetricFamily>& families) : families_(families) {}
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  // Each name once.
  Gauges& NewGauges(const std::string& name);
  Counters& NewCounters(const std::string& name);
  Histograms NewHistograms(const std::string& name);

  // All series in Prometheus' text format.
  std::string Text() const;

  // Families of the table that nobody has registered yet.
  std::vector<std::string> Unregistered() const;

 private:
  const MetricFamily& Take(const std::string& name, MetricType type);

  const std::vector<MetricFamily>& families_;
  std::set<std::string> registered_;
  prometheus::Registry registry_;
};

}  // namespace paceline

#endif  // COMMON_METRICS_METRIC_REGISTRY_H_
