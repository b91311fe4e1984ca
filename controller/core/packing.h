// Which nodes of many take a number of ranks, so that few failure domains are touched.
//
// In this order: one node that is just large enough; else one island; else one rack; else whole
// racks, the largest first, and the rest as before. Of domains that are large enough the one with
// the fewest nodes (as if all were as free as its freest), then the smallest is taken. This is not
// always the least that is possible, which would be a knapsack problem.
#ifndef CONTROLLER_CORE_PACKING_H_
#define CONTROLLER_CORE_PACKING_H_

#include <vector>

namespace paceline {

// A node with room; domains are numbers below the count of nodes that there are.
struct NodeRoom {
  int node = 0;
  int room = 0;    // Places; > 0.
  int rack = 0;    // Racks of different nodes that are the same have the same number.
  int island = 0;  // So have islands; those of different racks differ.
};

struct NodeShare {
  int node = 0;
  int count = 0;
};

// `count` places in all; empty when the rooms together have fewer. `rooms` ascend by node; between
// equals the lower number decides. `domains`: above all numbers of racks and islands.
std::vector<NodeShare> Pack(const std::vector<NodeRoom>& rooms, int count, int domains);

}  // namespace paceline

#endif  // CONTROLLER_CORE_PACKING_H_
