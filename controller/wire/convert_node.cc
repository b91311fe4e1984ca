#include "controller/wire/convert_node.h"

#include <algorithm>
#include <string>

#include "controller/wire/convert.h"

namespace paceline {
namespace {

// A node measures some dozens of things.
constexpr int kMaxMeasurements = 256;

static_assert(static_cast<int>(NodeState::kLost) + 1 == v1::NODE_LOST);
static_assert(static_cast<int>(NodeState::kDrained) + 1 == v1::NODE_DRAINED);
static_assert(static_cast<int>(DrainMode::kNow) == v1::DRAIN_NOW);

}  // namespace

v1::NodeState ToProto(NodeState state) {
  return static_cast<v1::NodeState>(static_cast<int>(state) + 1);
}

v1::Hold ToProto(const Hold& hold) {
  v1::Hold out;
  if (hold.drain.has_value()) out.set_drain(static_cast<v1::DrainMode>(*hold.drain));
  out.set_owner(hold.owner);
  out.set_reason(hold.reason);
  *out.mutable_since() = ToProto(hold.since);
  if (hold.until != absl::InfiniteFuture()) *out.mutable_until() = ToProto(hold.until);
  return out;
}

v1::NodeHistoryEvent ToProto(const NodeLifeEvent& event) {
  v1::NodeHistoryEvent out;
  *out.mutable_time() = ToProto(event.time);
  out.set_state(ToProto(event.state));
  out.set_who(event.who);
  out.set_what(event.what);
  return out;
}

v1::NodeCheckRequest ToProto(const CheckOrder& check) {
  v1::NodeCheckRequest out;
  out.set_id(check.id);
  out.set_peer_address(check.peer_address);
  return out;
}

v1::NodeCheckResult ToProto(const CheckResult& result) {
  v1::NodeCheckResult out;
  out.set_id(result.id);
  *out.mutable_time() = ToProto(result.time);
  out.set_error(result.error);
  out.set_peer(result.peer);
  for (const Measurement& measurement : result.measurements) {
    v1::NodeMeasurement& added = *out.add_measurements();
    added.set_name(measurement.name);
    added.set_value(measurement.value);
    added.set_unit(measurement.unit);
    added.set_more_is_better(measurement.more_is_better);
    if (measurement.own_median.has_value()) added.set_own_median(*measurement.own_median);
    if (measurement.peer_median.has_value()) added.set_peer_median(*measurement.peer_median);
    added.set_bad(measurement.bad);
  }
  return out;
}

v1::DrainEffect ToProto(const DrainEffect& effect) {
  v1::DrainEffect out;
  out.set_job(effect.job.value());
  for (const int rank : effect.ranks) out.add_ranks(rank);
  out.set_effect(effect.text);
  out.set_mode(static_cast<v1::DrainMode>(ModeOf(effect.way)));
  return out;
}

v1::AutomationStatus ToProto(const Automation& automation) {
  v1::AutomationStatus out;
  if (!automation.paused) return out;
  out.set_paused(true);
  out.set_owner(automation.owner);
  out.set_reason(automation.reason);
  *out.mutable_since() = ToProto(automation.since);
  return out;
}

v1::Node ToProto(const Node& node, const Cluster& cluster) {
  const NodeFacts& facts = node.facts;
  v1::Node out;
  out.set_name(facts.name.value());
  out.set_state(ToProto(node.state));
  out.set_reason(node.reason);
  out.mutable_hardware()->set_cpus(facts.cpus);
  out.mutable_hardware()->set_memory_bytes(facts.memory_bytes);
  for (const std::string& gpu : facts.gpus) out.mutable_hardware()->add_gpus(gpu);
  for (const int64_t bytes : facts.gpu_memory_bytes) {
    out.mutable_hardware()->add_gpu_memory_bytes(bytes);
  }
  out.mutable_hardware()->set_os(facts.os);
  out.mutable_labels()->insert(facts.labels.begin(), facts.labels.end());
  out.set_address(facts.address);
  out.set_metrics_address(facts.metrics_address);
  out.set_slots(facts.slots);
  out.set_slots_used(static_cast<int>(cluster.SlotsUsed(facts.name, Device::kCpu).size()));
  out.set_gpus_used(static_cast<int>(cluster.SlotsUsed(facts.name, Device::kCuda).size()));
  for (const PlannedTrainer& trainer : cluster.PlanFor(facts.name)) {
    const std::string& id = trainer.id.job.value();
    if (out.jobs().empty() || *out.jobs().rbegin() != id) out.add_jobs(id);
  }
  *out.mutable_register_time() = ToProto(node.registered);
  *out.mutable_last_report_time() = ToProto(node.last_report);
  out.set_version(facts.version);
  out.set_spec_version(facts.spec_version);
  for (const Hold& hold : node.holds) *out.add_holds() = ToProto(hold);
  if (node.checks.result.has_value()) *out.mutable_check() = ToProto(*node.checks.result);
  return out;
}

DrainMode FromProto(v1::DrainMode mode) {
  if (mode < v1::DRAIN_SWAP || mode > v1::DRAIN_NOW) return DrainMode::kSwap;
  return static_cast<DrainMode>(mode);
}

Hold FromProto(const v1::Hold& hold) {
  Hold out;
  if (hold.drain() != v1::DRAIN_MODE_UNSPECIFIED) out.drain = FromProto(hold.drain());
  out.owner = hold.owner();
  out.reason = hold.reason();
  out.since = FromProto(hold.since());
  if (hold.has_until()) out.until = FromProto(hold.until());
  return out;
}

NodeLifeEvent FromProto(const v1::NodeHistoryEvent& event) {
  const bool known = event.state() >= v1::NODE_READY && event.state() <= v1::NODE_LOST;
  return {FromProto(event.time()),
          known ? static_cast<NodeState>(event.state() - 1) : NodeState::kUnreachable, event.who(),
          event.what()};
}

CheckResult FromProto(const v1::NodeCheckResult& result) {
  CheckResult out;
  out.id = result.id();
  out.time = FromProto(result.time());
  out.error = result.error();
  out.peer = result.peer();
  for (const v1::NodeMeasurement& measurement : result.measurements()) {
    if (out.measurements.size() == kMaxMeasurements) break;
    Measurement& added = out.measurements.emplace_back();
    added.name = measurement.name();
    added.value = measurement.value();
    added.unit = measurement.unit();
    added.more_is_better = measurement.more_is_better();
    if (measurement.has_own_median()) added.own_median = measurement.own_median();
    if (measurement.has_peer_median()) added.peer_median = measurement.peer_median();
    added.bad = measurement.bad();
  }
  return out;
}

Automation FromProto(const v1::AutomationStatus& automation) {
  if (!automation.paused()) return {};
  return {true, automation.owner(), automation.reason(), FromProto(automation.since())};
}

NodeFacts FromProto(const v1::Hello& hello) {
  NodeFacts facts;
  facts.name = NodeName(hello.node());
  facts.uid = hello.node_uid();
  facts.cpus = hello.hardware().cpus();
  facts.memory_bytes = hello.hardware().memory_bytes();
  facts.gpus.assign(hello.hardware().gpus().begin(), hello.hardware().gpus().end());
  facts.gpu_memory_bytes.assign(hello.hardware().gpu_memory_bytes().begin(),
                                hello.hardware().gpu_memory_bytes().end());
  facts.os = hello.hardware().os();
  facts.labels.insert(hello.labels().begin(), hello.labels().end());
  facts.address = hello.address();
  facts.metrics_address = hello.metrics_address();
  facts.probe_address = hello.probe_address();
  facts.slots = std::max(0, hello.slots());
  facts.version = hello.version();
  facts.spec_version = std::max(0, hello.spec_version());
  return facts;
}

std::optional<CheckResult> CheckOf(const v1::NodeReport& report) {
  if (!report.has_check()) return std::nullopt;
  return FromProto(report.check());
}

}  // namespace paceline
