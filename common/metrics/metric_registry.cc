#include "common/metrics/metric_registry.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace paceline {

void RaiseTo(prometheus::Counter& counter, double total) {
  if (total > counter.Value()) counter.Increment(total - counter.Value());
}

Gauges& MetricRegistry::NewGauges(const std::string& name) {
  const MetricFamily& family = Take(name, MetricType::kGauge);
  return prometheus::BuildGauge().Name(family.name).Help(family.help).Register(registry_);
}

Counters& MetricRegistry::NewCounters(const std::string& name) {
  const MetricFamily& family = Take(name, MetricType::kCounter);
  return prometheus::BuildCounter().Name(family.name).Help(family.help).Register(registry_);
}

Histograms MetricRegistry::NewHistograms(const std::string& name) {
  const MetricFamily& family = Take(name, MetricType::kHistogram);
  return {prometheus::BuildHistogram().Name(family.name).Help(family.help).Register(registry_),
          family.buckets};
}

std::string MetricRegistry::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

std::vector<std::string> MetricRegistry::Unregistered() const {
  std::vector<std::string> names;
  for (const MetricFamily& family : families_) {
    if (registered_.count(family.name) == 0) names.emplace_back(family.name);
  }
  return names;
}

const MetricFamily& MetricRegistry::Take(const std::string& name, MetricType type) {
  const auto found = std::find_if(families_.begin(), families_.end(),
                                  [&](const MetricFamily& family) { return name == family.name; });
  if (found == families_.end() || found->type != type || !registered_.insert(name).second) {
    std::fprintf(stderr, "metric family %s: not in the table, of another type, or there twice\n",
                 name.c_str());
    std::abort();
  }
  return *found;
}

}  // namespace paceline
