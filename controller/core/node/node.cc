#include "controller/core/node/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr char kController[] = "controller";

bool LoseTouch(Node& node, std::string reason) {
  if (node.contact != Contact::kReachable) return false;
  node.contact = Contact::kUnreachable;
  node.unreachable_deadline = absl::InfiniteFuture();
  node.contact_reason = std::move(reason);
  ShowState(node);
  return true;
}

NodeState StateOf(const Node& node, const Hold* drain) {
  if (node.contact == Contact::kLost) return NodeState::kLost;
  if (node.contact == Contact::kUnreachable) return NodeState::kUnreachable;
  if (drain != nullptr) return node.occupied ? NodeState::kDraining : NodeState::kDrained;
  return node.holds.empty() ? NodeState::kReady : NodeState::kCordoned;
}

}  // namespace

absl::Duration LeasePatience(absl::Duration lease) {
  if (lease <= absl::ZeroDuration()) return absl::InfiniteDuration();
  return lease + std::max(absl::Seconds(1), lease / 10);
}

bool WelcomeNode(Node& node, NodeFacts facts, absl::Duration lease, Moment now) {
  node.facts = std::move(facts);
  if (node.registered == absl::Time()) node.registered = now.wall;
  HearFromNode(node, lease, now);
  return true;
}

bool HearFromNode(Node& node, absl::Duration lease, Moment now) {
  node.last_report = now.wall;
  node.unreachable_deadline = now.steady + kUnreachableAfter;
  node.lease_deadline = now.steady + LeasePatience(lease);
  if (node.contact == Contact::kReachable) return false;
  node.contact = Contact::kReachable;
  node.contact_reason = "reports arrive";
  ShowState(node);
  return true;
}

bool DisconnectNode(Node& node) { return LoseTouch(node, "the worker has disconnected"); }

bool LoseContact(Node& node, std::string why) {
  if (node.contact == Contact::kLost) return false;
  node.contact = Contact::kLost;
  node.unreachable_deadline = node.lease_deadline = absl::InfiniteFuture();
  node.contact_reason = std::move(why);
  node.trainers = 0;
  ShowState(node);
  return true;
}

bool TickNode(Node& node, Moment now) {
  bool changed = false;
  if (now.steady >= node.unreachable_deadline) {
    changed =
        LoseTouch(node, absl::StrCat("no report for ", absl::FormatDuration(kUnreachableAfter)));
  }
  if (now.steady >= node.lease_deadline) {
    LoseTouch(node, "no report");
    changed |= LoseContact(node, absl::StrCat(node.contact_reason, ", and its lease has run out"));
  }
  for (std::string& happened : ExpireHolds(node.holds, now.steady)) {
    ShowState(node);
    Record(node, kController, std::move(happened), now);
    changed = true;
  }
  return changed;
}

std::optional<Refusal> RefuseCheck(const Node& node, absl::Time wall_now) {
  const std::string& name = node.facts.name.value();
  if (node.contact != Contact::kReachable) {
    return Refusal{Refusal::Kind::kState, "NODE_UNREACHABLE",
                   absl::StrCat("node ", name, " does not answer: ", node.contact_reason)};
  }
  if (node.checks.running && wall_now < node.checks.begun + kCheckPatience) {
    return Refusal{Refusal::Kind::kState, "CHECK_RUNNING",
                   absl::StrCat("check ", node.checks.asked, " of node ", name,
                                " is under way: wait for its result")};
  }
  return std::nullopt;
}

absl::Time NextDeadline(const Node& node) {
  return std::min({node.unreachable_deadline, node.lease_deadline, NextExpiry(node.holds)});
}

bool ShowState(Node& node) {
  const Hold* drain = EffectiveDrain(node.holds);
  const NodeState before = std::exchange(node.state, StateOf(node, drain));
  const Hold* hold = drain != nullptr || node.holds.empty() ? drain : &node.holds.back();
  const bool reachable = node.contact == Contact::kReachable;
  node.reason = hold == nullptr ? node.contact_reason
                : reachable     ? DescribeHold(*hold)
                                : absl::StrCat(node.contact_reason, "; ", DescribeHold(*hold));
  return node.state != before;
}

void Record(Node& node, std::string who, std::string what, Moment now) {
  node.history.push_back({now.wall, node.state, std::move(who), std::move(what)});
  if (node.history.size() > kNodeEventsKept) node.history.erase(node.history.begin());
}

bool RecordState(Node& node, Moment now) {
  if (std::exchange(node.recorded, node.state) == node.state) return false;
  if (!node.history.empty() && node.history.back().state == node.state) return true;
  const bool emptied = node.state == NodeState::kDrained;
  Record(node, kController, emptied ? "nothing runs there any more" : node.reason, now);
  return true;
}

void RestoreNode(Node& node, absl::Duration lease, Moment now) {
  RestoreExpiry(node.holds, now);
  node.unreachable_deadline = absl::InfiniteFuture();
  if (node.contact == Contact::kLost) {
    node.lease_deadline = absl::InfiniteFuture();
  } else {
    node.contact = Contact::kUnreachable;
    node.contact_reason = "has not connected since the controller started";
    node.lease_deadline = now.steady + LeasePatience(lease);
  }
  ShowState(node);
  node.recorded = node.state;
}

}  // namespace paceline
