// Which nodes of many take a number of ranks, so that few failure domains are touched. It counts in
// slots, or in larger blocks of ranks that have to share a node (RankBlocks).
//
// It tries in this order: one node that is just large enough; one island; one rack; whole racks,
// the largest first, and the rest as before. Of domains that are large enough it takes the one with
// the fewest nodes (as if all were as free as its freest ever was), then the smallest. Ties go to
// the lower number. The result is not always the least possible, which would be a knapsack problem.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_SCHEDULE_PACKING_H_
#define CONTROLLER_CORE_SCHEDULE_PACKING_H_

#include <vector>

#include "controller/core/schedule/node_index.h"

namespace paceline {

struct NodeShare {
  int node = 0;
  int count = 0;
};

class Packing {
 public:
  // Initially no node has room. `index` outlives this.
  explicit Packing(const NodeIndex& index);

  void SetRoom(int node, int room);

  // Free slots on all nodes together.
  int room() const { return total_; }

  // `count` slots in all, which are not taken; empty if there is less room.
  std::vector<NodeShare> Pack(int count);

 private:
  struct Domain {
    int room = 0;
    int largest = 0;  // No node has more room than this.
  };

  // Steps towards a result. `rack`: the rack to stay in; -1: any.
  void Take(int node);
  bool TakeFromOneNode(int rack);
  int FindEnough(const std::vector<Domain>& domains, int rack) const;
  int FindLargest(const std::vector<Domain>& domains, int rack) const;
  // Nodes of a rack, or of one of its islands (-1: all), that have room; those with the most first.
  std::vector<int> Members(int rack, int island) const;
  void TakeAll(const std::vector<int>& nodes);
  void Fill(const std::vector<int>& nodes);

  const NodeIndex& index_;
  std::vector<int> room_;  // By node.
  std::vector<Domain> racks_, islands_;
  int largest_ = 0;  // No node has more room than this.
  int total_ = 0;

  int left_ = 0;
  std::vector<NodeShare> shares_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_PACKING_H_
