// The part of /metrics about the saves and restores of trainers (names: metric_families.h). A
// trainer whose job has no checkpoint directory has no series.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_METRICS_TRAINER_CHECKPOINT_METRICS_H_
#define WORKER_DAEMON_METRICS_TRAINER_CHECKPOINT_METRICS_H_

#include <map>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "proto/plan.pb.h"

namespace paceline {

class TrainerCheckpointMetrics {
 public:
  // `registry` outlives this object.
  explicit TrainerCheckpointMetrics(MetricRegistry& registry);

  void Set(const TrainerId& id, const v1::CheckpointFigures& figures);
  void Forget(const TrainerId& id);

 private:
  using Series = std::pair<Counters*, prometheus::Counter*>;

  std::vector<Series> Add(const TrainerId& id);

  Counters& seconds_;
  Counters& saves_;
  Counters& bytes_;
  Counters& skipped_;
  Counters& failures_;
  std::map<TrainerId, std::vector<Series>> shown_;  // In the order of the totals.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_METRICS_TRAINER_CHECKPOINT_METRICS_H_
