#include "controller/rpc/node_records.h"

#include <string>

#include "controller/rpc/convert.h"
#include "controller/rpc/convert_node.h"
#include "controller/rpc/records.h"

namespace paceline {
namespace {

NodeChecks DecodeChecks(const v1::NodeRecord& record) {
  NodeChecks checks;
  checks.asked = record.check_asked();
  checks.running = record.check_running();
  checks.begun = FromProto(record.check_begin_time());
  checks.peer = record.check_peer();
  checks.peer_address = record.check_peer_address();
  if (record.node().has_check()) checks.result = FromProto(record.node().check());
  for (const auto& [name, values] : record.earlier()) {
    checks.earlier[name].assign(values.value().begin(), values.value().end());
  }
  return checks;
}

}  // namespace

Node DecodeNode(const v1::NodeRecord& record) {
  const v1::Node& stored = record.node();
  Node node;
  node.facts.name = NodeName(stored.name());
  node.facts.uid = record.uid();
  node.facts.cpus = stored.hardware().cpus();
  node.facts.memory_bytes = stored.hardware().memory_bytes();
  node.facts.gpus.assign(stored.hardware().gpus().begin(), stored.hardware().gpus().end());
  node.facts.os = stored.hardware().os();
  node.facts.labels.insert(stored.labels().begin(), stored.labels().end());
  node.facts.address = stored.address();
  node.facts.metrics_address = stored.metrics_address();
  node.facts.slots = stored.slots();
  node.facts.version = stored.version();
  node.registered = FromProto(stored.register_time());
  node.last_report = FromProto(stored.last_report_time());
  for (const v1::Hold& hold : stored.holds()) node.holds.push_back(FromProto(hold));
  for (const v1::NodeHistoryEvent& event : record.history()) {
    node.history.push_back(FromProto(event));
  }
  if (record.lost()) {
    node.contact = Contact::kLost;
    node.contact_reason = record.lost_reason();
  }
  node.checks = DecodeChecks(record);
  return node;
}

std::string EncodeNode(const Node& node, const Cluster& cluster) {
  v1::NodeRecord record;
  *record.mutable_node() = ToProto(node, cluster);
  record.set_uid(node.facts.uid);
  for (const NodeLifeEvent& event : node.history) *record.add_history() = ToProto(event);
  if (node.contact == Contact::kLost) {
    record.set_lost(true);
    record.set_lost_reason(node.contact_reason);
  }
  record.set_check_asked(node.checks.asked);
  record.set_check_running(node.checks.running);
  *record.mutable_check_begin_time() = ToProto(node.checks.begun);
  record.set_check_peer(node.checks.peer);
  record.set_check_peer_address(node.checks.peer_address);
  for (const auto& [name, values] : node.checks.earlier) {
    v1::NodeRecord::Values& kept = (*record.mutable_earlier())[name];
    for (const double value : values) kept.add_value(value);
  }
  return record.SerializeAsString();
}

}  // namespace paceline
