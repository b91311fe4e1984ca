#include "controller/metrics/node_metrics.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controller/core/schedule/schedule.h"

namespace paceline {
namespace {

using prometheus::Labels;

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

// Sets the series while there is a value, and removes it while there is none. `state`: value of its
// "state" label; null: it has no such label. Labels are made for new series only, since most series
// are set each second.
void SetWhileKnown(Gauges& family, const Node& node, Labels labels, prometheus::Gauge*& gauge,
                   std::optional<double> value) {
  if (value.has_value()) {
    if (gauge == nullptr) {
      labels["node"] = node.facts.name.value();
      gauge = &family.Add(labels);
    }
    gauge->Set(*value);
  } else if (gauge != nullptr) {
    family.Remove(gauge);
    gauge = nullptr;
  }
}

Labels FactsOf(const Node& node) {
  const NodeFacts& facts = node.facts;
  const auto rack = facts.labels.find("rack");
  return {{"node", facts.name.value()},
          {"gpu_model", facts.gpus.empty() ? "" : facts.gpus.front()},
          {"rack", rack == facts.labels.end() ? "" : rack->second},
          {"version", facts.version}};
}

}  // namespace

NodeMetrics::NodeMetrics(MetricRegistry& registry)
    : info_(registry.NewGauges("paceline_node_info")),
      states_(registry.NewGauges("paceline_node_state")),
      slots_(registry.NewGauges("paceline_node_slots")),
      gpus_(registry.NewGauges("paceline_node_gpus")),
      heartbeat_(registry.NewGauges("paceline_node_last_heartbeat_timestamp_seconds")),
      drain_started_(registry.NewGauges("paceline_node_drain_started_timestamp_seconds")),
      bad_measurements_(registry.NewGauges("paceline_node_check_bad_measurements")),
      drains_(registry.NewCounters("paceline_node_drains_total")) {
  for (const char* source : {"person", "automation"}) {
    for (const char* outcome : {"drained", "ended", "lost"}) {
      drains_.Add({{"source", source}, {"outcome", outcome}});
    }
  }
}

void NodeMetrics::Begin(const Node& node) {
  const Hold* drain = EffectiveDrain(node.holds);
  if (drain == nullptr) return;
  draining_[node.facts.name] = {drain->owner == kAutomationOwner,
                                node.state == NodeState::kDrained};
}

void NodeMetrics::Follow(const Node& node) {
  const Hold* hold = EffectiveDrain(node.holds);
  const auto found = draining_.find(node.facts.name);
  if (hold == nullptr) {
    if (found == draining_.end()) return;
    if (!found->second.counted) CountDrain(found->second, "ended");
    draining_.erase(found);
    return;
  }
  Drain& drain = found != draining_.end() ? found->second : draining_[node.facts.name];
  drain.automatic = hold->owner == kAutomationOwner;
  if (drain.counted) return;
  if (node.state == NodeState::kDrained || node.state == NodeState::kLost) {
    CountDrain(drain, node.state == NodeState::kDrained ? "drained" : "lost");
    drain.counted = true;
  }
}

void NodeMetrics::CountDrain(const Drain& drain, const char* outcome) {
  drains_.Add({{"source", drain.automatic ? "automation" : "person"}, {"outcome", outcome}})
      .Increment();
}

void NodeMetrics::Show(const Cluster& cluster) {
  std::map<NodeName, UsedSlots> used;
  for (const auto& [id, job] : cluster.jobs()) {
    const bool on_gpus = job.request.device == Device::kCuda;
    ForEachSlot(job, [&, on_gpus](const Slot& slot) {
      UsedSlots& on_node = used[slot.node];
      ++(on_gpus ? on_node.gpus : on_node.slots);
    });
  }
  for (const auto& [name, node] : cluster.nodes()) {
    Series& series = shown_[name];
    ShowFacts(node, series);
    const auto slots = used.find(name);
    ShowSlots(node, slots == used.end() ? UsedSlots() : slots->second, series);
    ShowRest(node, series);
  }
}

void NodeMetrics::ShowFacts(const Node& node, Series& series) {
  if (series.states[0] == nullptr) {
    for (int s = 0; s < kNodeStates; ++s) {
      series.states[static_cast<size_t>(s)] = &states_.Add(
          {{"node", node.facts.name.value()}, {"state", LabelOf(static_cast<NodeState>(s))}});
    }
  }
  for (int s = 0; s < kNodeStates; ++s) {
    series.states[static_cast<size_t>(s)]->Set(static_cast<int>(node.state) == s ? 1 : 0);
  }
  Labels facts = FactsOf(node);
  if (series.info != nullptr && series.facts == facts) return;
  if (series.info != nullptr) info_.Remove(series.info);
  series.info = &info_.Add(facts);
  series.info->Set(1);
  series.facts = std::move(facts);
}

void NodeMetrics::ShowSlots(const Node& node, const UsedSlots& used, Series& series) {
  const auto show = [&](Gauges& family, int all, int taken, bool tells, prometheus::Gauge*& in_use,
                        prometheus::Gauge*& free) {
    const auto value = [tells](int count) {
      return tells ? std::optional<double>(count) : std::nullopt;
    };
    SetWhileKnown(family, node, {{"state", "used"}}, in_use, value(taken));
    SetWhileKnown(family, node, {{"state", "free"}}, free, value(std::max(0, all - taken)));
  };
  const int gpus = static_cast<int>(node.facts.gpus.size());
  show(slots_, node.facts.slots, used.slots, gpus == 0 || used.slots > 0, series.slots_used,
       series.slots_free);
  show(gpus_, gpus, used.gpus, gpus > 0 || used.gpus > 0, series.gpus_used, series.gpus_free);
}

void NodeMetrics::ShowRest(const Node& node, Series& series) {
  const bool was_heard = node.last_report > absl::UnixEpoch();
  SetWhileKnown(heartbeat_, node, {}, series.heartbeat,
                was_heard ? std::optional(UnixSeconds(node.last_report)) : std::nullopt);
  const Hold* drain = EffectiveDrain(node.holds);
  for (const bool automatic : {false, true}) {
    const bool its = drain != nullptr && (drain->owner == kAutomationOwner) == automatic;
    SetWhileKnown(drain_started_, node, {{"source", automatic ? "automation" : "person"}},
                  series.drain_started[automatic ? 1 : 0],
                  its ? std::optional(UnixSeconds(drain->since)) : std::nullopt);
  }
  const auto& check = node.checks.result;
  std::optional<double> bad;
  if (check.has_value()) {
    bad = static_cast<double>(
        std::count_if(check->measurements.begin(), check->measurements.end(),
                      [](const Measurement& measurement) { return measurement.bad; }));
  }
  SetWhileKnown(bad_measurements_, node, {}, series.bad_measurements, bad);
}

}  // namespace paceline
