// All nodes, and indexes of them, kept as those of JobTable.
//
// Thread-compatible; after Refresh and until the next change, thread-safe.
#ifndef CONTROLLER_CORE_CLUSTER_NODE_TABLE_H_
#define CONTROLLER_CORE_CLUSTER_NODE_TABLE_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster/deadlines.h"
#include "controller/core/node/node.h"

namespace paceline {

class NodeTable {
 public:
  NodeTable() = default;
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  // The node of that name, for a change; it is a new one if there was none. Nodes are never
  // removed.
  Node& Insert(const NodeName& name);
  // Null: there is no such node.
  const Node* Find(const NodeName& name) const;
  // The same, for a change.
  Node* Change(const NodeName& name);
  // The nodes whose deadlines (node.h) have come, for changes; by name. `now`: steady.
  std::vector<Node*> ChangeDue(absl::Time now);

  const std::map<NodeName, Node>& all() const { return nodes_; }
  // The nodes that were changed since BeginStep.
  const std::set<NodeName>& changed() const { return changed_; }
  void BeginStep() { changed_.clear(); }

  // Indexes.
  const std::set<NodeName>& held() const { return Refreshed().held_; }  // Have holds.
  const std::set<NodeName>& unreachable() const { return Refreshed().unreachable_; }
  // How often a node has joined or left `unreachable`.
  int64_t contact_changes() const { return Refreshed().contact_changes_; }

  // When the first node has something to do (node.h); infinite future: never. Steady.
  absl::Time NextDeadline() const { return Refreshed().deadlines_.Next(); }

  void Refresh() const;

 private:
  const NodeTable& Refreshed() const {
    Refresh();
    return *this;
  }
  Node& Mark(const NodeName& name, Node& node);

  std::map<NodeName, Node> nodes_;
  absl::flat_hash_map<NodeName, Node*> by_name_;  // Never iterated: it has no order.
  std::set<NodeName> changed_;

  // As of the last Refresh.
  mutable absl::flat_hash_map<NodeName, const Node*> stale_;  // Changed since then.
  mutable std::set<NodeName> held_;
  mutable std::set<NodeName> unreachable_;
  mutable int64_t contact_changes_ = 0;
  mutable Deadlines<NodeName> deadlines_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CLUSTER_NODE_TABLE_H_
