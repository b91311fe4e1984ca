// Which nodes take the replicas of a sharded job, each of several blocks of ranks (RankBlocks).
//
// Replicas work at the pace of the slowest, and one is the slower the further its ranks are apart.
// So the narrowest kind of domain is chosen of which each replica can have one for itself or share
// it: a node, an island, a rack, any nodes. Then all replicas go, if possible, to one node, island
// or rack: that with the fewest nodes (as if all were as free as its freest ever was), then the
// smallest; else to whole racks, the largest first, and the rest as before. Within these nodes as
// many replicas as fit are in one node each, then in one island, and so on. A replica takes the
// nodes with the most room first, and the rest from the smallest that holds it, so that it has as
// few nodes as possible. Ties go to the lower number.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_SCHEDULE_REPLICA_PACKING_H_
#define CONTROLLER_CORE_SCHEDULE_REPLICA_PACKING_H_

#include <array>
#include <cstddef>
#include <vector>

#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/packing.h"

namespace paceline {

class ReplicaPacking {
 public:
  // `size`: blocks of each replica. Initially no node has room. `index` outlives this.
  ReplicaPacking(const NodeIndex& index, int size);

  // So many blocks fit into the node.
  void SetRoom(int node, int room);

  // How many replicas fit, each within a domain of this kind.
  int Fit(Span span) const { return FitInto(all_, span); }

  // The narrowest kind of domain, up to `widest`, with which so many replicas fit.
  Span Narrowest(int replicas, Span widest) const;

  // The blocks of so many replicas, which are not taken: first those of replica 0, then those of
  // replica 1, and so on; a share may be of several replicas that are on the same node as a whole.
  // Requires: replicas > 0, and so many fit within domains of the kind `widest`.
  std::vector<NodeShare> Pack(int replicas, Span widest) const;

 private:
  struct Domain {
    int room = 0;     // In blocks.
    int largest = 0;  // No node has more room than this.
    // By Span: replicas that fit, each within a domain of that kind. Only of kinds that are not
    // wider than this domain.
    std::array<int, 3> fit = {};
  };

  int FitInto(const Domain& domain, Span span) const {
    return span == Span::kAnywhere ? domain.room / size_ : domain.fit[static_cast<size_t>(span)];
  }

  // Steps of Pack. `open`: by rack, whether it is still to be used. `span`: the kind of domain that
  // each replica is to have.
  int FindLargestRack(Span span, const std::vector<bool>& open) const;
  int FindNode(const std::vector<bool>& open, int room) const;
  int FindEnough(Span kind, Span span, const std::vector<bool>& open, int replicas) const;
  // Nodes of a rack, or of one of its islands (-1: all), that have room.
  std::vector<NodeShare> Members(int rack, int island) const;
  void FillOneDomain(Span span, const std::vector<bool>& open, int replicas,
                     std::vector<NodeShare>& shares) const;
  void Fill(const std::vector<NodeShare>& rooms, int replicas,
            std::vector<NodeShare>& shares) const;

  const NodeIndex& index_;
  const int size_;
  std::vector<int> room_;  // By node.
  std::vector<Domain> islands_, racks_;
  Domain all_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_REPLICA_PACKING_H_
