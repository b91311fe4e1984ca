// A program's metrics. Families are registered by their names in the program's table, so that name,
// help and buckets are in one place.
//
// Registering ends the process when the table lacks the family or has it with another type: a bug
// in the program that each start reveals.
//
// Thread-compatible while families are registered; Text is thread-safe. Families and metrics are
// prometheus-cpp's, which are thread-safe and live as long as the registry.
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

// Raises a counter to a total counted elsewhere; never lowers it.
void RaiseTo(prometheus::Counter& counter, double total);

class MetricRegistry {
 public:
  // `families` must outlive this.
  explicit MetricRegistry(const std::vector<MetricFamily>& families) : families_(families) {}
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  // Each name can be registered once.
  Gauges& NewGauges(const std::string& name);
  Counters& NewCounters(const std::string& name);
  Histograms NewHistograms(const std::string& name);

  // Returns all series in Prometheus' text format.
  std::string Text() const;

  // Families in the table that were not registered yet.
  std::vector<std::string> Unregistered() const;

 private:
  const MetricFamily& Take(const std::string& name, MetricType type);

  const std::vector<MetricFamily>& families_;
  std::set<std::string> registered_;
  prometheus::Registry registry_;
};

}  // namespace paceline

#endif  // COMMON_METRICS_METRIC_REGISTRY_H_
