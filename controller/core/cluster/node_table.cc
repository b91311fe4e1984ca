#include "controller/core/cluster/node_table.h"

namespace paceline {
namespace {

// Returns true if that changed the set.
bool SetMember(std::set<NodeName>& set, const NodeName& name, bool is_member) {
  return is_member ? set.insert(name).second : set.erase(name) > 0;
}

}  // namespace

Node& NodeTable::Insert(const NodeName& name) {
  Node*& known = by_name_[name];
  if (known == nullptr) known = &nodes_[name];
  return Mark(name, *known);
}

const Node* NodeTable::Find(const NodeName& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Node* NodeTable::Change(const NodeName& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &Mark(name, *found->second);
}

std::vector<Node*> NodeTable::ChangeDue(absl::Time now) {
  Refresh();
  const std::vector<NodeName> taken = deadlines_.TakeDue(now);
  const std::set<NodeName> due(taken.begin(), taken.end());
  std::vector<Node*> nodes;
  for (const NodeName& name : due) nodes.push_back(Change(name));
  return nodes;
}

Node& NodeTable::Mark(const NodeName& name, Node& node) {
  changed_.insert(name);
  stale_.emplace(name, &node);
  return node;
}

void NodeTable::Refresh() const {
  if (stale_.empty()) return;
  for (const auto& [name, node] : stale_) {
    SetMember(held_, name, !node->holds.empty());
    const bool is_unreachable = node->contact != Contact::kReachable;
    if (SetMember(unreachable_, name, is_unreachable)) ++contact_changes_;
    deadlines_.Set(name, paceline::NextDeadline(*node));
  }
  stale_.clear();
}

}  // namespace paceline
