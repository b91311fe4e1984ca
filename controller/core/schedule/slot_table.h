// All slots of one kind of device during one decision or one pass of the scheduler: what is free,
// and what has been taken so far.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_SCHEDULE_SLOT_TABLE_H_
#define CONTROLLER_CORE_SCHEDULE_SLOT_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/node_set.h"
#include "controller/core/schedule/packing.h"
#include "controller/core/schedule/placement.h"
#include "controller/core/schedule/rank_blocks.h"
#include "controller/core/schedule/replica_packing.h"

namespace paceline {

class SlotTable {
 public:
  // `nodes` is sorted by name, and `index` covers just these; both outlive this.
  SlotTable(const std::vector<NodeSpace>& nodes, const NodeIndex& index);

  int size() const { return static_cast<int>(nodes_.size()); }
  const NodeSpace& node(int node) const { return nodes_[node]; }
  const NodeIndex& index() const { return index_; }
  const NodeSet& open() const { return open_; }

  // Grows with each change of what is free.
  int64_t version() const { return static_cast<int64_t>(changes_.size()); }

  // Free slots that are neither taken nor kept; 0 when the node is not open.
  int room(int index) const { return room_[index]; }
  // The same, including those that are kept.
  int free(int index) const { return room_[index] + kept_[index]; }
  // Keeps this many of the node's free slots from later requests; all of them if it has fewer.
  void Keep(int index, int count);

  // What the job's ranks are counted in, with the domain that each of its replicas requires.
  RankBlocks BlocksOf(const JobRequest& job) const;

  // Nodes for the job's ranks among those that its policy allows; none, and how many of its
  // RankBlocks fit at most, if these are too few.
  struct Packed {
    std::vector<NodeShare> shares;  // In slots.
    int room = 0;                   // In blocks.
  };
  Packed Pack(const JobRequest& job);
  // Takes these slots. Requires: there is enough room.
  std::vector<Slot> Take(const std::vector<NodeShare>& shares);
  // Takes one slot, even if it is kept.
  Slot TakeOne(int index);

 private:
  // How many blocks fit into each of the allowed nodes. One that was asked for lately
  // is only brought up to date.
  Packing& PackingOf(const NodeSet& allowed, const RankBlocks& blocks);
  // The same for replicas of several blocks.
  const ReplicaPacking& ReplicaPackingOf(const NodeSet& allowed, const RankBlocks& blocks);
  // Within one group of the policy's `same`: the one with the fewest nodes that can hold the ranks,
  // then the smallest.
  Packed PackInOneGroup(const JobRequest& job, const NodeSet& nodes) const;
  // The same for replicas of several blocks: the group in which their ranks are nearest to each
  // other, of these the one with the fewest nodes, then the smallest.
  Packed PackReplicasInOneGroup(const JobRequest& job, const NodeSet& nodes,
                                const RankBlocks& blocks) const;

  struct Known {
    Packing packing;
    size_t changes = 0;  // How many of changes_ it includes.
  };
  struct KnownReplicas {
    ReplicaPacking packing;
    size_t changes = 0;
  };

  const std::vector<NodeSpace>& nodes_;
  const NodeIndex& index_;
  NodeSet open_;
  std::vector<int> room_, kept_, used_;  // By node.
  std::vector<int> changes_;             // Nodes whose room has changed, in order.
  // By what NodeIndex::Allowed returns, which is another for another ranks_per_node.
  std::map<const NodeSet*, Known> known_;
  std::optional<Packing> other_;  // For the last set that is not in known_.
  // The same by blocks of a replica, too.
  std::map<std::pair<const NodeSet*, int>, KnownReplicas> known_replicas_;
  std::optional<ReplicaPacking> other_replicas_;
  // By what NodeIndex::Allowed returns: the blocks that fit into its largest node, island and rack
  // when they are empty.
  mutable std::map<const NodeSet*, std::array<int, 3>> largest_;
};

// The index of these nodes.
NodeIndex IndexOf(const std::vector<NodeSpace>& nodes);

// Steps of PlaceRanks (placement.h); they take from the table what they return.
std::vector<Slot> PlaceSpares(const JobRequest& job, const std::vector<Slot>& ranks, int count,
                              SlotTable& table);  // As many as there is room for.

// Nodes that the job may not use for one reason alone: their trainers do not know what it needs
// (SpecNeeds). `with_pool`: as in NodeIndex::Allowed.
NodeSet NodesOfOldRelease(const JobRequest& job, const NodeIndex& index, bool with_pool);
// To complete "nodes that ...": "need a worker of this release, for outer steps: ...".
std::string DescribeOldRelease(const JobRequest& job);

// "a, b, c and 7 more": the first of these names, and how many are left. `more`: names that are not
// among these.
inline constexpr size_t kNamesListed = 5;
std::string ListNames(const std::vector<std::string>& names, size_t more = 0);

// "waits for 4 slots": and "3 free now, 2 on nodes that do not answer".
std::string DescribeWish(const JobRequest& job, const SlotTable& table);
std::string DescribeShortage(const JobRequest& job, const NodeSet& allowed, const SlotTable& table);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_SLOT_TABLE_H_
