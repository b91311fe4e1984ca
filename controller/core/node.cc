#include "controller/core/node.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

bool LoseTouch(Node& node, std::string reason) {
  if (node.state != NodeState::kReady) return false;
  node.state = NodeState::kUnreachable;
  node.silence_deadline = absl::InfiniteFuture();
  node.reason = std::move(reason);
  return true;
}

}  // namespace

bool WelcomeNode(Node& node, NodeFacts facts, Moment now) {
  node.facts = std::move(facts);
  if (node.registered == absl::Time()) node.registered = now.wall;
  HearFromNode(node, now);
  return true;
}

bool HearFromNode(Node& node, Moment now) {
  node.last_report = now.wall;
  node.silence_deadline = now.steady + kNodeSilence;
  if (node.state == NodeState::kReady) return false;
  node.state = NodeState::kReady;
  node.reason = "reports arrive";
  return true;
}

bool DisconnectNode(Node& node) { return LoseTouch(node, "the worker has disconnected"); }

bool TickNode(Node& node, Moment now) {
  if (now.steady < node.silence_deadline) return false;
  return LoseTouch(node, absl::StrCat("no report for ", absl::FormatDuration(kNodeSilence)));
}

}  // namespace paceline
