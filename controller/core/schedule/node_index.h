// What the names and labels of all nodes say about where jobs may run. It is valid until a node
// comes or changes its labels, and remembers what it was asked.
//
// Thread-compatible, its const methods too.
#ifndef CONTROLLER_CORE_SCHEDULE_NODE_INDEX_H_
#define CONTROLLER_CORE_SCHEDULE_NODE_INDEX_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/core/ids.h"
#include "controller/core/schedule/node_set.h"
#include "controller/core/schedule/placement_policy.h"

namespace paceline {

inline constexpr char kTaintPrefix[] = "taint.";

class NodeIndex {
 public:
  struct NodeLabels {
    const NodeName* name = nullptr;
    const std::map<std::string, std::string>* labels = nullptr;  // Null: none.
  };

  // `nodes` by name; they are borrowed.
  explicit NodeIndex(std::vector<NodeLabels> nodes);

  int size() const { return static_cast<int>(nodes_.size()); }
  // -1: there is no such node.
  int Find(const NodeName& name) const;
  // Value of a label; empty: none.
  absl::string_view Label(int node, const std::string& label) const;
  const NodeSet& pool() const { return pool_; }

  // Numbers of the failure domains that the nodes are in.
  int rack(int node) const { return rack_[node]; }
  int island(int node) const { return island_[node]; }
  // Label "rack" of the node; empty: none.
  const std::string& rack_name(int node) const { return rack_names_[rack_[node]]; }
  // By number of the rack: its nodes, ascending.
  const std::vector<std::vector<int>>& racks() const { return racks_; }
  // By number of the island: its rack.
  const std::vector<int>& island_racks() const { return island_racks_; }

  // The nodes that the policy allows, without regard to `same`. Those of the pool of spares are in
  // it for spares and replacements only. Valid as long as this.
  const NodeSet& Allowed(const PlacementPolicy& policy, bool with_pool) const;

  // By node: number of its value of the label, in the order of the values; -1: it has none.
  const std::vector<int>& Groups(const std::string& label) const;

  // Sets of which one is to take all ranks of a job: by the value of the policy's `same`, cut down
  // to `nodes`; `nodes` itself without one.
  std::vector<NodeSet> Choices(const PlacementPolicy& policy, const NodeSet& nodes) const;

 private:
  NodeSet Select(const PlacementPolicy& policy) const;
  // Nodes with this value of the label.
  const NodeSet& With(const std::string& label, const std::string& value) const;
  // By value of the label: nodes that have it.
  const std::map<std::string, std::vector<int>>& Values(const std::string& label) const;

  std::vector<NodeLabels> nodes_;
  absl::flat_hash_map<absl::string_view, int> index_;
  NodeSet pool_;
  std::vector<int> rack_, island_;
  std::vector<std::vector<int>> racks_;
  std::vector<int> island_racks_;
  std::vector<std::string> rack_names_;
  std::map<std::string, NodeSet> taints_;  // By KEY=VALUE.

  // What was asked so far.
  mutable std::map<std::string, std::map<std::string, std::vector<int>>> values_;
  mutable std::map<std::pair<std::string, std::string>, NodeSet> with_;
  mutable std::map<std::string, std::vector<int>> groups_;
  mutable absl::node_hash_map<std::pair<PlacementPolicy, bool>, NodeSet> allowed_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_NODE_INDEX_H_
