// All places of one kind of device while one decision, or a whole pass of the scheduler, is made:
// what each policy allows, what is free, and what has been taken so far.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_PLACE_TABLE_H_
#define CONTROLLER_CORE_PLACE_TABLE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "controller/core/node_set.h"
#include "controller/core/packing.h"
#include "controller/core/placement.h"
#include "controller/core/placement_policy.h"

namespace paceline {

inline constexpr char kTaintPrefix[] = "taint.";

class PlaceTable {
 public:
  // `nodes` by name; they outlive this.
  explicit PlaceTable(const std::vector<NodeSpace>& nodes);

  int size() const { return static_cast<int>(nodes_.size()); }
  const NodeSpace& node(int index) const { return nodes_[index]; }
  // -1: there is no such node.
  int Find(const NodeName& name) const;
  const NodeSet& open() const { return open_; }
  const NodeSet& pool() const { return pool_; }

  // The nodes that the policy allows, open or not. Those of the pool of spares are in it for
  // spares and replacements only. Without regard to `same`. Valid as long as the table.
  const NodeSet& Allowed(const PlacementPolicy& policy, bool with_pool);

  // Sets of nodes with the same value of `label`, in the order of the values.
  const std::vector<NodeSet>& Groups(const std::string& label);

  // Sets of which one is to take all ranks of a job: by the value of the policy's `same`, cut down
  // to `nodes`; `nodes` itself without one.
  std::vector<NodeSet> Choices(const PlacementPolicy& policy, const NodeSet& nodes);

  // Value of a label; empty: none.
  absl::string_view Label(int index, const std::string& label) const;

  // Free places that are neither taken nor kept; 0 when the node is not open.
  int room(int index) const { return room_[index]; }
  // The same with those that are kept.
  int free(int index) const { return room_[index] + kept_[index]; }
  // Room of all of them.
  int Room(const NodeSet& nodes) const;

  // Keeps so many of the node's free places from those who ask later; all if it has fewer.
  void Keep(int index, int count);

  // Nodes for `count` ranks among `nodes`; empty: they have too little room.
  std::vector<NodeShare> Pack(const NodeSet& nodes, int count) const;
  // Takes them. Requires: there is so much room.
  std::vector<Place> Take(const std::vector<NodeShare>& shares);
  // Takes one, even if it is kept.
  Place TakeOne(int index);

 private:
  NodeSet Find(const PlacementPolicy& policy) const;
  // By value of the label: nodes that have it.
  const std::map<std::string, std::vector<int>>& Values(const std::string& label) const;
  int Domain(std::map<std::pair<absl::string_view, absl::string_view>, int>& domains,
             absl::string_view rack, absl::string_view island);

  const std::vector<NodeSpace>& nodes_;
  NodeSet open_, pool_;
  std::vector<int> room_, kept_, used_;  // By node.
  std::vector<int> rack_, island_;       // By node: number of the domain.
  int domains_ = 0;
  std::map<std::string, std::vector<int>> taints_;  // By KEY=VALUE: nodes.
  mutable std::map<std::string, std::map<std::string, std::vector<int>>> values_;
  std::map<std::string, std::vector<NodeSet>> groups_;
  std::map<std::pair<PlacementPolicy, bool>, NodeSet> allowed_;
};

// The steps of PlaceRanks (placement.h) on a table, from which they take what they return.
std::vector<Place> PlaceRanks(const JobRequest& job, PlaceTable& table);  // Empty: no room.
std::vector<Place> PlaceSpares(const JobRequest& job, const std::vector<Place>& ranks, int count,
                               PlaceTable& table);  // As many as there is room for.
std::string DescribeShortage(const JobRequest& job, PlaceTable& table);

}  // namespace paceline

#endif  // CONTROLLER_CORE_PLACE_TABLE_H_
