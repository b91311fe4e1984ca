// The part of /metrics about the saves and restores of trainers (names: metric_names.h). A
// trainer whose job has no checkpoint directory has no series.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_CHECKPOINT_METRICS_H_
#define WORKER_DAEMON_CHECKPOINT_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>

#include <map>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "proto/plan.pb.h"

namespace paceline {

class CheckpointMetrics {
 public:
  // `registry` outlives this object.
  explicit CheckpointMetrics(prometheus::Registry& registry);

  void Set(const TrainerId& id, const v1::CheckpointFigures& figures);
  void Forget(const TrainerId& id);

 private:
  using Counters = prometheus::Family<prometheus::Counter>;
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

#endif  // WORKER_DAEMON_CHECKPOINT_METRICS_H_
