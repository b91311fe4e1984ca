// The cluster's nodes: what workers report of them, and what people do with them.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/unreachable.h"

namespace paceline {
namespace {

std::string DescribeDone(const Hold& hold, absl::Time wall_now) {
  const std::string term =
      hold.until == absl::InfiniteFuture()
          ? ""
          : absl::FormatDuration(
                absl::Trunc(hold.until - wall_now + absl::Milliseconds(500), absl::Seconds(1)));
  const std::string what = hold.drain.has_value()
                               ? absl::StrCat("drain (", DrainModeName(*hold.drain),
                                              term.empty() ? "" : ", deadline in ", term, ")")
                               : absl::StrCat("cordon", term.empty() ? "" : " for ", term);
  return absl::StrCat(what, ": ", hold.reason);
}

int CountRunning(const std::vector<TrainerReport>& trainers) {
  return static_cast<int>(std::count_if(
      trainers.begin(), trainers.end(),
      [](const TrainerReport& report) { return report.state != TrainerState::kExited; }));
}

bool SameHardware(const NodeFacts& a, const NodeFacts& b) {
  return a.cpus == b.cpus && a.gpus == b.gpus;
}

std::string RackOf(const NodeFacts& facts) {
  const auto rack = facts.labels.find("rack");
  return rack == facts.labels.end() ? "" : rack->second;
}

// The node that this one measures the network with: preferably one in its rack, then one without
// trainers, then the first by name. Null: no other node answers.
const Node* PeerFor(const Node& node, const std::map<NodeName, Node>& nodes) {
  const Node* best = nullptr;
  const auto cost = [&](const Node& peer) {
    return std::make_pair(RackOf(peer.facts) != RackOf(node.facts), peer.trainers > 0);
  };
  for (const auto& [name, peer] : nodes) {
    if (&peer == &node || peer.contact != Contact::kReachable) continue;
    if (peer.facts.probe_address.empty()) continue;
    if (best == nullptr || cost(peer) < cost(*best)) best = &peer;
  }
  return best;
}

}  // namespace

void Cluster::On(const NodeConnected& event, Moment now, Actions& actions) {
  const NodeName& name = event.facts.name;
  Node& node = nodes_.Insert(name);
  if (!node.facts.uid.empty() && node.facts.uid != event.facts.uid) {
    for (const auto& [id, known] : jobs_.On(name)) {
      Job& job = *jobs_.Change(id);
      Note(job, LoseNode(job, name, "the node came back without its trainers", now), actions);
    }
  }
  WelcomeNode(node, event.facts, options_.node_lease, now);
  node.trainers = CountRunning(event.trainers);
  actions.store_nodes.insert(name);
  actions.show_nodes.insert(name);
  TakeIn(name, event.trainers, now, actions);
  TakeIn(name, event.task_results, now, actions);
  TakeIn(node, event.check, now, actions);
  actions.send_plans.insert(name);
}

void Cluster::On(const NodeReported& event, Moment now, Actions& actions) {
  Node* const node = nodes_.Change(event.node);
  if (node == nullptr) return;
  HearFromNode(*node, options_.node_lease, now);
  node->trainers = CountRunning(event.trainers);
  TakeIn(event.node, event.trainers, now, actions);
  TakeIn(event.node, event.task_results, now, actions);
  TakeIn(*node, event.check, now, actions);
}

void Cluster::On(const NodeDisconnected& event, Moment, Actions&) {
  Node* const node = nodes_.Change(event.node);
  if (node != nullptr) DisconnectNode(*node);
}

void Cluster::On(const HoldRequested& event, Moment now, Actions& actions) {
  Node* const node = nodes_.Change(event.node);
  if (node == nullptr || !SetHold(node->holds, event.hold, now)) return;
  RecordDone(*node, event.hold.owner, DescribeDone(event.hold, now.wall), now, actions);
  EndDrain(*node, actions);
}

void Cluster::On(const UncordonRequested& event, Moment now, Actions& actions) {
  Node* const node = nodes_.Change(event.node);
  if (node == nullptr || !RemoveCordon(node->holds, event.owner)) return;
  RecordDone(*node, event.owner, "uncordon", now, actions);
}

void Cluster::On(const NodeResumeRequested& event, Moment now, Actions& actions) {
  Node* const node = nodes_.Change(event.node);
  if (node == nullptr || !RemoveHolds(node->holds, event.owner)) return;
  RecordDone(*node, event.owner, "resume", now, actions);
  EndDrain(*node, actions);
}

void Cluster::On(const LossDeclared& event, Moment now, Actions& actions) {
  Node* const node = nodes_.Change(event.node);
  if (node == nullptr) return;
  const std::string what = absl::StrCat("declared lost by ", event.owner, ": ", event.reason);
  // When its lease has run out, it counts as lost already, but jobs may still have ranks there.
  bool changed = LoseContact(*node, what);
  for (const auto& [id, known] : jobs_.On(event.node)) {
    Job& job = *jobs_.Change(id);
    const JobChange change = LoseNode(job, event.node, absl::StrCat("its node was ", what), now);
    changed = changed || change != JobChange::kNone;
    Note(job, change, actions);
  }
  if (!changed) return;
  RecordDone(*node, event.owner, absl::StrCat("declared lost: ", event.reason), now, actions);
}

void Cluster::On(const CheckRequested& event, Moment now, Actions& actions) {
  Node* const node = nodes_.Change(event.node);
  if (node == nullptr) return;
  NodeChecks& checks = node->checks;
  ++checks.asked;
  checks.running = true;
  checks.begun = now.wall;
  const Node* peer = PeerFor(*node, nodes());
  checks.peer = peer == nullptr ? "" : peer->facts.name.value();
  checks.peer_address = peer == nullptr ? "" : peer->facts.probe_address;
  actions.store_nodes.insert(event.node);
  actions.show_nodes.insert(event.node);
  actions.send_plans.insert(event.node);
}

void Cluster::On(const AutomaticDrainRequested& event, Moment now, Actions& actions) {
  const std::optional<Refusal> refusal = RefuseAutomatic(event.node);
  if (refusal.has_value()) {
    if (!PullsBrake(*refusal)) return;
    automation_ = {true, kBrakeOwner, refusal->message, now.wall};
    actions.store_automation = true;
    return;
  }
  Hold hold;
  hold.drain = event.mode;
  hold.owner = std::string(kAutomationOwner);
  hold.reason = event.reason;
  hold.until = event.until;
  On(HoldRequested{event.node, std::move(hold)}, now, actions);
}

void Cluster::On(const AutomationPauseRequested& event, Moment now, Actions& actions) {
  if (automation_.paused && automation_.owner != kBrakeOwner) return;
  automation_ = {true, event.owner, event.reason, now.wall};
  actions.store_automation = true;
}

void Cluster::On(const AutomationResumeRequested&, Moment, Actions& actions) {
  if (!automation_.paused) return;
  automation_ = {};
  actions.store_automation = true;
}

void Cluster::TakeIn(Node& node, const std::optional<CheckResult>& check, Moment now,
                     Actions& actions) {
  if (!check.has_value()) return;
  std::vector<const CheckResult*> peers;
  for (const auto& [name, peer] : nodes()) {
    if (&peer == &node || !peer.checks.result.has_value()) continue;
    if (SameHardware(peer.facts, node.facts)) peers.push_back(&*peer.checks.result);
  }
  CheckResult result = *check;
  result.time = now.wall;
  Judge(result, node.checks, peers);
  if (!TakeCheckResult(node.checks, std::move(result))) return;
  actions.store_nodes.insert(node.facts.name);
  actions.show_nodes.insert(node.facts.name);
  actions.send_plans.insert(node.facts.name);
}

void Cluster::TickNodes(Moment now, Actions& actions) {
  for (Node* node : nodes_.ChangeDue(now.steady)) {
    const NodeName& name = node->facts.name;
    const Contact before = node->contact;
    if (!TickNode(*node, now)) continue;
    actions.store_nodes.insert(name);
    actions.show_nodes.insert(name);
    if (before == Contact::kLost || node->contact != Contact::kLost) continue;
    const std::string why = absl::StrCat("its node is lost: ", node->contact_reason);
    for (const auto& [id, known] : jobs_.On(name)) {
      if (!Recovers(*known)) continue;
      Job& job = *jobs_.Change(id);
      Note(job, TakeLostNode(job, name, why, now), actions);
    }
  }
}

void Cluster::RecordDone(Node& node, const std::string& who, std::string what, Moment now,
                         Actions& actions) {
  node.occupied = IsOccupied(node);
  ShowState(node);
  Record(node, who, std::move(what), now);
  actions.store_nodes.insert(node.facts.name);
  actions.show_nodes.insert(node.facts.name);
}

bool Cluster::IsOccupied(const Node& node) const {
  return node.trainers > 0 || !PlanFor(node.facts.name).empty();
}

void Cluster::ShowNodes(Moment now, Actions& actions) {
  const auto show = [&](const NodeName& name) {
    Node& node = *nodes_.Change(name);
    if (!node.holds.empty()) {
      node.occupied = IsOccupied(node);
      ShowState(node);
    }
    if (!RecordState(node, now)) return;
    actions.store_nodes.insert(name);
    actions.show_nodes.insert(name);
    actions.changed_nodes.insert(name);
  };
  const std::set<NodeName> changed = nodes_.changed();
  for (const NodeName& name : changed) show(name);
  // Whether anything runs on a held node depends on jobs.
  for (const NodeName& name : nodes_.held()) {
    const Node& node = *nodes_.Find(name);
    if (changed.count(name) == 0 && node.occupied != IsOccupied(node)) show(name);
  }
}

std::optional<Refusal> Cluster::RefuseAutomatic(const NodeName& node) const {
  auto refusal = RefuseAutomaticDrain(automation_, nodes(), node, options_.max_out_share);
  if (refusal.has_value()) return refusal;
  for (const NodeName& other : DrainedByAutomation(nodes())) {
    if (other == node) continue;
    for (const auto& [id, job] : jobs()) {
      if (!HasTrainersOn(job, node) || !HasTrainersOn(job, other)) continue;
      return Refusal{Refusal::Kind::kState, "DRAIN_IN_FLIGHT",
                     absl::StrCat("the automation empties ", other.value(), " of job ", id.value(),
                                  " already: one node of a job at a time")};
    }
  }
  return std::nullopt;
}

std::optional<CheckOrder> Cluster::CheckFor(const NodeName& node) const {
  const Node* const known = nodes_.Find(node);
  if (known == nullptr || !known->checks.running) return std::nullopt;
  return CheckOrder{known->checks.asked, known->checks.peer_address};
}

}  // namespace paceline
