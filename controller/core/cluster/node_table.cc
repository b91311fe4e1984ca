#include "controller/core/cluster/node_table.h"

namespace paceline {
namespace {

// Returns true if that changed the set.
bool SetMember(std::set<NodeName>& set, const NodeName& name, bool is_member) {
  return is_member ? set.insert(name).second : set.erase(name) > 0;
}

}  // namespace

Node& NodeTable::Insert(const NodeName& name) {
  Mark(name);
  return nodes_[name];
}

const Node* NodeTable::Find(const NodeName& name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

Node* NodeTable::Change(const NodeName& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return nullptr;
  Mark(name);
  return &found->second;
}

std::vector<Node*> NodeTable::ChangeDue(absl::Time now) {
  Refresh();
  const std::vector<NodeName> taken = deadlines_.TakeDue(now);
  const std::set<NodeName> due(taken.begin(), taken.end());
  std::vector<Node*> nodes;
  for (const NodeName& name : due) nodes.push_back(Change(name));
  return nodes;
}

void NodeTable::Mark(const NodeName& name) {
  changed_.insert(name);
  stale_.insert(name);
}

void NodeTable::Refresh() const {
  for (const NodeName& name : stale_) {
    const Node& node = nodes_.at(name);
    SetMember(held_, name, !node.holds.empty());
    const bool is_unreachable = node.contact != Contact::kReachable;
    if (SetMember(unreachable_, name, is_unreachable)) ++contact_changes_;
    deadlines_.Set(name, paceline::NextDeadline(node));
  }
  stale_.clear();
}

}  // namespace paceline
