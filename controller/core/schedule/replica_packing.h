// Which nodes take the replicas of a sharded job, each of several blocks of ranks (RankBlocks).
//
// Replicas work at the pace of the slowest, and one is the slower the further its ranks are apart.
// So the narrowest kind of domain is chosen of which each replica can have one for itself or share
// it: a node, an island, a rack, any nodes. Then all replicas go, if possible, to one node, island
// or rack: that in which they touch the fewest nodes, then the smallest; else to whole racks, the
// largest first, and the rest as before. Within these nodes as many replicas as fit are in one node
// each, then in one island, and so on. A replica takes the nodes with the most room first, and the
// rest from the smallest that holds it, so that it has as few nodes as possible. Ties go to the
// lower number.
#ifndef CONTROLLER_CORE_SCHEDULE_REPLICA_PACKING_H_
#define CONTROLLER_CORE_SCHEDULE_REPLICA_PACKING_H_

#include <vector>

#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/packing.h"
#include "controller/core/schedule/rank_blocks.h"

namespace paceline {

struct PackedReplicas {
  Span span = Span::kNode;  // No replica needs a wider domain.
  // In blocks: first those of replica 0, then those of replica 1, and so on; one may be of several
  // replicas that are on the same node as a whole.
  std::vector<NodeShare> shares;
};

// `rooms`: nodes and the blocks that fit there; each node once, and more than 0.
// Requires: they hold blocks.count, by BlockCount.
PackedReplicas PackReplicas(const NodeIndex& index, const std::vector<NodeShare>& rooms,
                            const RankBlocks& blocks);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_REPLICA_PACKING_H_
