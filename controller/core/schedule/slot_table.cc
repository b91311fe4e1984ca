#include "controller/core/schedule/slot_table.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "controller/core/schedule/replica_packing.h"

namespace paceline {
namespace {

// How many are kept, each of some 10 bytes per node. Most jobs have one of a few policies.
constexpr size_t kPackingsKept = 16;

std::vector<NodeShare> InSlots(std::vector<NodeShare> shares, const RankBlocks& blocks) {
  for (NodeShare& share : shares) share.count *= blocks.size;
  return shares;
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
  if (blocks.per_replica > 1) return PackSharded(job, allowed, blocks);
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

SlotTable::Packed SlotTable::PackSharded(const JobRequest& job, const NodeSet& nodes,
                                         const RankBlocks& blocks) const {
  Packed packed;
  std::tuple<Span, size_t, int> least;
  for (const NodeSet& choice : index_.Choices(job.placement, nodes)) {
    BlockCount count(index_, blocks);
    std::vector<NodeShare> rooms;
    int sum = 0;
    choice.ForEach([&](int n) {
      const int room = blocks.Fit(room_[n]);
      if (room == 0) return;
      rooms.push_back({n, room});
      count.Add(n, room);
      sum += room;
    });
    packed.room = std::max(packed.room, count.total());
    if (count.total() < blocks.count) continue;
    PackedReplicas found = PackReplicas(index_, rooms, blocks);
    const auto cost = std::make_tuple(found.span, found.shares.size(), sum);
    if (!packed.shares.empty() && !(cost < least)) continue;
    packed.shares = InSlots(std::move(found.shares), blocks);
    least = cost;
  }
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
  std::vector<NodeIndex::NodeLabels> labels;
  labels.reserve(nodes.size());
  for (const NodeSpace& node : nodes) labels.push_back({&node.name, node.labels});
  return NodeIndex(std::move(labels));
}

}  // namespace paceline
