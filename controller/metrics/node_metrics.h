// Series per node: what it is, its state, what it holds, and how its drains ended.
//
// Thread-compatible, except for what Prometheus reads.
#ifndef CONTROLLER_METRICS_NODE_METRICS_H_
#define CONTROLLER_METRICS_NODE_METRICS_H_

#include <array>
#include <map>
#include <string>

#include "common/core/ids.h"
#include "common/metrics/metric_registry.h"
#include "controller/core/cluster/cluster.h"
#include "controller/metrics/metric_labels.h"

namespace paceline {

class NodeMetrics {
 public:
  // `registry` outlives this.
  explicit NodeMetrics(MetricRegistry& registry);

  // Takes in a node found at the start; the beginning of its drain is not counted.
  void Begin(const Node& node);
  // Call when the node has changed.
  void Follow(const Node& node);
  // Shows all nodes in their present state.
  void Show(const Cluster& cluster);

 private:
  struct Drain {
    bool automatic = false;
    bool counted = false;  // Its end was counted.
  };
  struct UsedSlots {
    int slots = 0;
    int gpus = 0;
  };
  struct Series {
    prometheus::Labels facts;  // As shown by `info`.
    prometheus::Gauge* info = nullptr;
    std::array<prometheus::Gauge*, kNodeStates> states = {};
    prometheus::Gauge* heartbeat = nullptr;
    // Null while there is no value.
    prometheus::Gauge* slots_used = nullptr;
    prometheus::Gauge* slots_free = nullptr;
    prometheus::Gauge* gpus_used = nullptr;
    prometheus::Gauge* gpus_free = nullptr;
    // Indexed by who asked: a person, the automation.
    std::array<prometheus::Gauge*, 2> drain_started = {};
    prometheus::Gauge* bad_measurements = nullptr;
  };

  void CountDrain(const Drain& drain, const char* outcome);
  void ShowFacts(const Node& node, Series& series);
  void ShowSlots(const Node& node, const UsedSlots& used, Series& series);
  void ShowRest(const Node& node, Series& series);

  Gauges& info_;
  Gauges& states_;
  Gauges& slots_;
  Gauges& gpus_;
  Gauges& heartbeat_;
  Gauges& drain_started_;
  Gauges& bad_measurements_;
  Counters& drains_;

  std::map<NodeName, Series> shown_;
  std::map<NodeName, Drain> draining_;  // Nodes with a drain.
};

}  // namespace paceline

#endif  // CONTROLLER_METRICS_NODE_METRICS_H_
