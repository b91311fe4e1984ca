// What the names, labels and spec versions of all nodes say about where jobs may run. It is valid
// until a node is added or changes one of them, and caches its answers.
//
// Thread-compatible. Const methods fill caches, so they must not run at the same time either.
#ifndef CONTROLLER_CORE_SCHEDULE_NODE_INDEX_H_
#define CONTROLLER_CORE_SCHEDULE_NODE_INDEX_H_

#include <array>
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
  struct NodeTraits {
    const NodeName* name = nullptr;
    const std::map<std::string, std::string>* labels = nullptr;  // Null: none.
    int spec_version = 0;                                        // NodeFacts.spec_version.
  };

  // `nodes` is sorted by name, and borrowed.
  explicit NodeIndex(std::vector<NodeTraits> nodes);

  int size() const { return static_cast<int>(nodes_.size()); }
  // Index of the node; -1: there is no such node.
  int Find(const NodeName& name) const;
  // Value of a label; empty: none.
  absl::string_view Label(int node, const std::string& label) const;
  const NodeSet& pool() const { return pool_; }

  // Numbers of the failure domains that the nodes are in.
  int rack(int node) const { return rack_[node]; }
  int island(int node) const { return island_[node]; }
  // Number of the domain of this kind that the node is in, and how many there are.
  int DomainOf(Span span, int node) const;
  int CountDomains(Span span) const;
  // The narrowest domain that has both nodes.
  Span SpanOf(int a, int b) const;
  // Label "rack" of the node; empty: none.
  const std::string& rack_name(int node) const { return rack_names_[rack_[node]]; }
  // The same of label "island".
  const std::string& island_name(int node) const { return island_names_[island_[node]]; }
  // By number of the rack: its nodes, ascending.
  const std::vector<std::vector<int>>& racks() const { return racks_; }
  // By number of the island: its rack.
  const std::vector<int>& island_racks() const { return island_racks_; }

  // The nodes that the policy allows, regardless of its `same`. With `with_pool`, which is for
  // spares and replacements, they include the pool of spares. Valid as long as this object.
  const NodeSet& Allowed(const PlacementPolicy& policy, bool with_pool) const;

  // By node: index of its value of the label among all values, sorted; -1: it has none.
  const std::vector<int>& Groups(const std::string& label) const;

  // The sets of nodes of which one must take all ranks of a job: one for each value of the policy's
  // `same`, restricted to `nodes`; if there is no `same`, only `nodes` itself.
  std::vector<NodeSet> Choices(const PlacementPolicy& policy, const NodeSet& nodes) const;

 private:
  NodeSet Select(const PlacementPolicy& policy) const;
  // Nodes with this value of the label.
  const NodeSet& With(const std::string& label, const std::string& value) const;
  // The nodes that have each value of the label.
  const std::map<std::string, std::vector<int>>& Values(const std::string& label) const;

  std::vector<NodeTraits> nodes_;
  absl::flat_hash_map<absl::string_view, int> index_;
  NodeSet pool_;
  std::vector<int> rack_, island_;
  std::vector<std::vector<int>> racks_;
  std::vector<int> island_racks_;
  std::vector<std::string> rack_names_, island_names_;
  std::map<std::string, NodeSet> taints_;  // By KEY=VALUE.

  // Caches of answers.
  mutable std::map<std::string, std::map<std::string, std::vector<int>>> values_;
  mutable std::map<std::pair<std::string, std::string>, NodeSet> with_;
  mutable std::map<std::string, std::vector<int>> groups_;
  mutable std::array<absl::node_hash_map<PlacementPolicy, NodeSet>, 2> allowed_;  // By with_pool.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_NODE_INDEX_H_
