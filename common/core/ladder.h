// Turns a strategy into the groups of a generation: "the ranks of a node" becomes numbers, by where
// the ranks are.
#ifndef COMMON_CORE_LADDER_H_
#define COMMON_CORE_LADDER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

// Where a rank runs, or a replica of a sharded model. The ranks of a node are consecutive, and so
// are those of a rack.
struct RankHome {
  std::string node;
  std::string rack;  // The node's label "rack"; nodes without it share one.
};

enum class LadderScope { kSize, kNode, kRack, kAll };

// A level of a job file's ladder: proto/job_spec.proto, LadderLevel.
struct LadderLevel {
  int64_t period = 1;
  LadderScope scope = LadderScope::kSize;
  int size = 0;        // For kSize.
  bool outer = false;  // Its means end in an outer step.

  friend bool operator==(const LadderLevel& a, const LadderLevel& b) {
    return a.period == b.period && a.scope == b.scope && a.size == b.size && a.outer == b.outer;
  }
};

// Without levels, gradients of all ranks are averaged at each step (synchronous).
using Ladder = std::vector<LadderLevel>;

// Returns text like "2:8,4:node,8:all", or "synchronous".
std::string DescribeLadder(const Ladder& ladder);

// By replica, each of `shards` consecutive ranks: the node that all its ranks are on, else a node
// of its own in the rack that they share, else a rack of its own. With one shard these are `homes`.
// Requires: `shards` divides the number of ranks.
std::vector<RankHome> HomesOfReplicas(const std::vector<RankHome>& homes, int shards);

// Sizes of the groups of consecutive ranks; they add up to the number of ranks. `size` is the group
// size for kSize; if it does not divide the number of ranks, the last group is smaller. By the
// homes of replicas, the groups are of replicas, and so is `size`.
std::vector<int> LadderGroups(LadderScope scope, int size, const std::vector<RankHome>& homes);

}  // namespace paceline

#endif  // COMMON_CORE_LADDER_H_
