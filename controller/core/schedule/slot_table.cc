#include "controller/core/schedule/slot_table.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace paceline {
namespace {

// How many are kept, each of some 10 bytes per node. Most jobs have one of a few policies.
constexpr size_t kPackingsKept = 16;

std::vector<NodeShare> InSlots(std::vector<NodeShare> shares, const RankBlocks& blocks) {
  for (NodeShare& share : shares) share.count *= blocks.size;
  return shares;
}

SlotTable::Packed PackReplicas(const ReplicaPacking& packing, const RankBlocks& blocks) {
  SlotTable::Packed packed;
  const int fit = packing.Fit(blocks.span);
  packed.room = fit * blocks.per_replica;
  if (fit >= blocks.replicas()) {
    packed.shares = InSlots(packing.Pack(blocks.replicas(), blocks.span), blocks);
  }
  return packed;
}

}  // namespace

SlotTable::SlotTable(const std::vector<NodeSpace>& nodes, const NodeIndex& index)
    : nodes_(nodes), index_(index), open_(size()), used_(nodes.size()) {
  room_.reserve(nodes.size());
  kept_.reserve(nodes.size());
  for (int n = 0; n < size(); ++n) {
    const NodeSpace& node = nodes_[n];
    const int free = node.open ? static_cast<int>(node.free.size()) : 0;
    kept_.push_back(std::min(free, node.kept));
    room_.push_back(free - kept_.back());
    if (node.open) open_.Add(n);
  }
}

void SlotTable::Keep(int index, int count) {
  const int kept = std::min(room_[index], std::max(0, count));
  room_[index] -= kept;
  kept_[index] += kept;
  changes_.push_back(index);
}

Packing& SlotTable::PackingOf(const NodeSet& allowed, const RankBlocks& blocks) {
  const auto known = known_.find(&allowed);
  if (known != known_.end()) {
    Known& found = known->second;
    for (; found.changes < changes_.size(); ++found.changes) {
      const int n = changes_[found.changes];
      if (allowed.Contains(n)) found.packing.SetRoom(n, blocks.Fit(room_[n]));
    }
    return found.packing;
  }
  Packing packing(index_);
  allowed.ForEach([&](int n) {
    if (room_[n] > 0) packing.SetRoom(n, blocks.Fit(room_[n]));
  });
  if (known_.size() < kPackingsKept) {
    return known_.emplace(&allowed, Known{std::move(packing), changes_.size()})
        .first->second.packing;
  }
  other_.reset();
  return other_.emplace(std::move(packing));
}

const ReplicaPacking& SlotTable::ReplicaPackingOf(const NodeSet& allowed,
                                                  const RankBlocks& blocks) {
  const auto known = known_replicas_.find({&allowed, blocks.per_replica});
  if (known != known_replicas_.end()) {
    KnownReplicas& found = known->second;
    for (; found.changes < changes_.size(); ++found.changes) {
      const int n = changes_[found.changes];
      // Slots of a node are mostly taken one after the other.
      const bool again = found.changes + 1 < changes_.size() && changes_[found.changes + 1] == n;
      if (!again && allowed.Contains(n)) found.packing.SetRoom(n, blocks.Fit(room_[n]));
    }
    return found.packing;
  }
  ReplicaPacking packing(index_, blocks.per_replica);
  allowed.ForEach([&](int n) {
    if (room_[n] > 0) packing.SetRoom(n, blocks.Fit(room_[n]));
  });
  if (known_replicas_.size() < kPackingsKept) {
    return known_replicas_
        .emplace(std::make_pair(&allowed, blocks.per_replica),
                 KnownReplicas{std::move(packing), changes_.size()})
        .first->second.packing;
  }
  other_replicas_.reset();
  return other_replicas_.emplace(std::move(packing));
}

RankBlocks SlotTable::BlocksOf(const JobRequest& job) const {
  RankBlocks blocks(job);
  if (blocks.per_replica == 1 || job.placement.replica == ReplicaPlacement::kPrefer) return blocks;
  constexpr Span kSpans[] = {Span::kNode, Span::kIsland, Span::kRack};
  const NodeSet& allowed = index_.Allowed(job.placement, /*with_pool=*/false);
  const auto entry = largest_.try_emplace(&allowed);
  std::array<int, 3>& largest = entry.first->second;
  for (size_t s = 0; entry.second && s < largest.size(); ++s) {
    const Span span = kSpans[s];
    int& most = largest[s];
    std::vector<int> sums(index_.CountDomains(span));
    allowed.ForEach([&](int n) {
      int& sum = sums[index_.DomainOf(span, n)];
      sum += blocks.Fit(nodes_[n].total);
      most = std::max(most, sum);
    });
  }
  blocks.span = Span::kRack;
  for (size_t s = largest.size(); s-- > 0;) {
    if (largest[s] >= blocks.per_replica) blocks.span = kSpans[s];
  }
  return blocks;
}

SlotTable::Packed SlotTable::Pack(const JobRequest& job) {
  const NodeSet& allowed = index_.Allowed(job.placement, /*with_pool=*/false);
  const RankBlocks blocks = BlocksOf(job);
  if (blocks.per_replica > 1) {
    return job.placement.same.empty() ? PackReplicas(ReplicaPackingOf(allowed, blocks), blocks)
                                      : PackReplicasInOneGroup(job, allowed, blocks);
  }
  if (!job.placement.same.empty()) return PackInOneGroup(job, allowed);
  Packing& packing = PackingOf(allowed, blocks);
  return {InSlots(packing.Pack(blocks.count), blocks), packing.room()};
}

SlotTable::Packed SlotTable::PackInOneGroup(const JobRequest& job, const NodeSet& nodes) const {
  struct Sum {
    int room = 0;
    int largest = 0;
  };
  const RankBlocks blocks(job);
  const std::vector<int>& groups = index_.Groups(job.placement.same);
  std::vector<Sum> sums(nodes_.size());
  Packed packed;
  nodes.ForEach([&](int n) {
    if (groups[n] < 0) return;
    Sum& sum = sums[groups[n]];
    sum.room += blocks.Fit(room_[n]);
    sum.largest = std::max(sum.largest, blocks.Fit(room_[n]));
    packed.room = std::max(packed.room, sum.room);
  });
  int best = -1;
  std::pair<int, int> least;
  for (int g = 0; g < static_cast<int>(sums.size()); ++g) {
    if (sums[g].room < blocks.count) continue;
    const std::pair<int, int> cost = {(blocks.count + sums[g].largest - 1) / sums[g].largest,
                                      sums[g].room};
    if (best >= 0 && !(cost < least)) continue;
    best = g;
    least = cost;
  }
  if (best < 0) return packed;
  Packing packing(index_);
  nodes.ForEach([&](int n) {
    if (groups[n] == best) packing.SetRoom(n, blocks.Fit(room_[n]));
  });
  packed.shares = InSlots(packing.Pack(blocks.count), blocks);
  return packed;
}

SlotTable::Packed SlotTable::PackReplicasInOneGroup(const JobRequest& job, const NodeSet& nodes,
                                                    const RankBlocks& blocks) const {
  Packed packed;
  std::optional<NodeSet> best;
  std::tuple<Span, int, int> least;
  ReplicaPacking present(index_, blocks.per_replica);  // Of one group at a time.
  for (NodeSet& group : index_.Choices(job.placement, nodes)) {
    int room = 0;
    int largest = 0;
    group.ForEach([&](int n) {
      const int fit = blocks.Fit(room_[n]);
      present.SetRoom(n, fit);
      room += fit;
      largest = std::max(largest, fit);
    });
    const int fit = present.Fit(blocks.span);
    const Span span = present.Narrowest(blocks.replicas(), blocks.span);
    group.ForEach([&](int n) { present.SetRoom(n, 0); });
    packed.room = std::max(packed.room, fit * blocks.per_replica);
    if (fit < blocks.replicas()) continue;
    const auto cost = std::make_tuple(span, (blocks.count + largest - 1) / largest, room);
    if (best.has_value() && !(cost < least)) continue;
    best = std::move(group);
    least = cost;
  }
  if (!best.has_value()) return packed;
  ReplicaPacking packing(index_, blocks.per_replica);
  best->ForEach([&](int n) { packing.SetRoom(n, blocks.Fit(room_[n])); });
  packed.shares = PackReplicas(packing, blocks).shares;
  return packed;
}

std::vector<Slot> SlotTable::Take(const std::vector<NodeShare>& shares) {
  std::vector<Slot> slots;
  for (const NodeShare& share : shares) {
    for (int i = 0; i < share.count; ++i) slots.push_back(TakeOne(share.node));
  }
  return slots;
}

Slot SlotTable::TakeOne(int index) {
  --(room_[index] > 0 ? room_[index] : kept_[index]);
  changes_.push_back(index);
  const NodeSpace& node = nodes_[index];
  return {node.name, node.free[used_[index]++], index_.rack_name(index), index_.island_name(index)};
}

NodeIndex IndexOf(const std::vector<NodeSpace>& nodes) {
  std::vector<NodeIndex::NodeTraits> traits;
  traits.reserve(nodes.size());
  for (const NodeSpace& node : nodes) {
    traits.push_back({&node.name, node.labels, node.spec_version});
  }
  return NodeIndex(std::move(traits));
}

}  // namespace paceline
