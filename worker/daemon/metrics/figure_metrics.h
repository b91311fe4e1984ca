// The part of /metrics that trainers measure themselves (names: metric_families.h). An unknown
// figure has no series.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_METRICS_FIGURE_METRICS_H_
#define WORKER_DAEMON_METRICS_FIGURE_METRICS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "proto/plan.pb.h"
#include "proto/status.pb.h"

namespace paceline {

class FigureMetrics {
 public:
  // `registry` outlives this object.
  explicit FigureMetrics(MetricRegistry& registry);

  void Set(const TrainerId& id, const v1::RankFigures& figures, const v1::PlanStatus& plan);
  void Forget(const TrainerId& id);

 private:
  struct Level {
    prometheus::Counter* seconds;
    prometheus::Counter* bytes;
    prometheus::Counter* count;
  };
  struct Trainer {
    prometheus::Labels labels;
    std::vector<prometheus::Gauge*> gauges;        // Parallel to gauges_; null: not shown.
    std::vector<prometheus::Counter*> counters;    // Parallel to counters_; null: not shown.
    std::map<std::pair<int, bool>, Level> levels;  // By group size and gradients or not.
    v1::FlopsSource flops_source = v1::FLOPS_SOURCE_UNSPECIFIED;  // The source shown, if any.
    prometheus::Gauge* flops_gauge = nullptr;
    v1::SlipstreamMode mode = v1::SLIPSTREAM_UNSPECIFIED;  // The mode shown, if any.
    prometheus::Gauge* mode_gauge = nullptr;
    std::map<std::string, prometheus::Gauge*> reported;  // By the script's name of it.
  };
  void SetLevel(Trainer& trainer, const v1::LevelFigures& level);
  void SetFlops(Trainer& trainer, const v1::RankFigures& figures);
  void SetMode(Trainer& trainer, v1::SlipstreamMode mode);
  void SetReported(Trainer& trainer, const v1::RankFigures& figures);

  std::vector<Gauges*> gauges_;
  std::vector<Counters*> counters_;
  Counters& seconds_;
  Counters& bytes_;
  Counters& count_;
  Gauges& flops_;
  Gauges& modes_;
  Gauges& reported_;
  std::map<TrainerId, Trainer> shown_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_METRICS_FIGURE_METRICS_H_
