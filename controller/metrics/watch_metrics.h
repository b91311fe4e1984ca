// Counts about the streams that watch one kind of resource. Thread-safe.
#ifndef CONTROLLER_METRICS_WATCH_METRICS_H_
#define CONTROLLER_METRICS_WATCH_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

namespace paceline {

struct WatchMetrics {
  prometheus::Gauge& open;
  prometheus::Counter& resyncs;
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_WATCH_METRICS_H_
