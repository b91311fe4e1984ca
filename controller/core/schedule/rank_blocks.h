// What the scheduler counts in: blocks of ranks that have to share a node, and replicas of several
// blocks that may have to share a failure domain.
#ifndef CONTROLLER_CORE_SCHEDULE_RANK_BLOCKS_H_
#define CONTROLLER_CORE_SCHEDULE_RANK_BLOCKS_H_

#include <algorithm>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/schedule/node_index.h"

namespace paceline {

struct RankBlocks {
  explicit RankBlocks(const JobRequest& job) : count(job.ranks) {
    if (job.placement.ranks_per_node > 0) {
      one_per_node = true;
      size = job.placement.ranks_per_node;
      count = job.ranks / size;
    }
    per_replica = std::max(1, job.shards / size);
  }

  // How many blocks fit into a node with so many slots.
  int Fit(int slots) const { return one_per_node ? slots >= size : slots; }

  // Whether a replica's blocks have to share a domain.
  bool bound() const { return per_replica > 1 && span != Span::kAnywhere; }
  int replicas() const { return count / per_replica; }

  int size = 1;   // Ranks of each block.
  int count = 0;  // Blocks of the job.
  bool one_per_node = false;
  int per_replica = 1;  // Blocks of each replica; 1 also where blocks hold whole ones.
  // The widest domain that a replica may need. Set by SlotTable::BlocksOf, since it depends on the
  // nodes.
  Span span = Span::kAnywhere;
};

// How many of a job's blocks fit into nodes, which are added one by one.
class BlockCount {
 public:
  // `index` outlives this.
  BlockCount(const NodeIndex& index, const RankBlocks& blocks)
      : index_(index),
        unit_(blocks.bound() ? blocks.per_replica : 1),
        span_(blocks.bound() ? blocks.span : Span::kAnywhere),
        room_(index.CountDomains(span_)) {}

  // Adds so many blocks' room on the node; a negative number takes it away.
  void Add(int node, int blocks) {
    int& room = room_[index_.DomainOf(span_, node)];
    total_ += unit_ == 1 ? blocks : Whole(room + blocks) - Whole(room);
    room += blocks;
  }

  // The same for each of the nodes, of which there are many: blocks_of(node) blocks.
  template <typename BlocksOf>
  void AddAll(const NodeSet& nodes, BlocksOf blocks_of) {
    if (unit_ > 1) return nodes.ForEach([&](int n) { Add(n, blocks_of(n)); });
    int sum = 0;
    nodes.ForEach([&](int n) { sum += blocks_of(n); });
    room_[0] += sum;  // Anywhere: one domain.
    total_ += sum;
  }

  // Of bound replicas only those count that fit as a whole into one domain.
  int total() const { return total_; }

  // The domain around the node in which bound replicas have to lie.
  int DomainOf(int node) const { return index_.DomainOf(span_, node); }
  // What was added there.
  int RoomIn(int domain) const { return room_[domain]; }

 private:
  int Whole(int room) const { return room / unit_ * unit_; }

  const NodeIndex& index_;
  const int unit_;  // In blocks.
  const Span span_;
  std::vector<int> room_;  // By domain.
  int total_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_RANK_BLOCKS_H_
