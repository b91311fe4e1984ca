#include "controller/core/schedule/replica_packing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace paceline {
namespace {

// Nodes, and the blocks that fit there.
using Rooms = std::vector<NodeShare>;

void Append(const Rooms& more, Rooms& rooms) {
  rooms.insert(rooms.end(), more.begin(), more.end());
}

// Nodes in the order of their room, the most first, then by number.
class NodesByRoom {
 public:
  explicit NodesByRoom(const Rooms& rooms) {
    for (const NodeShare& node : rooms) nodes_.emplace(-node.count, node.node);
  }

  // The smallest node with so much room; if there is none, the one with the most. A count of 0: no
  // node has room.
  NodeShare Find(int room) const {
    if (nodes_.empty()) return {};
    const auto smaller = nodes_.lower_bound({1 - room, 0});  // The first that has less.
    const auto found =
        smaller == nodes_.begin() ? smaller : nodes_.lower_bound({std::prev(smaller)->first, 0});
    return {found->second, -found->first};
  }

  // Takes `count` blocks from a node that Find returned.
  NodeShare Take(const NodeShare& node, int count) {
    nodes_.erase({-node.count, node.node});
    if (node.count > count) nodes_.emplace(count - node.count, node.node);
    return {node.node, count};
  }

  Rooms rooms() const {
    Rooms left;
    for (const auto& [room, node] : nodes_) left.push_back({node, -room});
    return left;
  }

 private:
  std::set<std::pair<int, int>> nodes_;  // {-room, node}
};

// Nodes that share a domain.
struct Group {
  Rooms rooms;
  int room = 0;  // Of all of them.
};

// By domain of this kind; those with the most room first.
std::vector<Group> GroupsByRoom(const NodeIndex& index, Span span, const Rooms& rooms) {
  std::map<int, Group> by_domain;
  for (const NodeShare& node : rooms) {
    Group& group = by_domain[index.DomainOf(span, node.node)];
    group.rooms.push_back(node);
    group.room += node.count;
  }
  std::vector<Group> groups;
  groups.reserve(by_domain.size());
  for (auto& [domain, group] : by_domain) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.room > b.room; });
  return groups;
}

// Appends the shares of one replica, of as few nodes as possible. Requires: the nodes hold it.
void FillReplica(int size, NodesByRoom& nodes, Rooms& shares) {
  for (int left = size; left > 0;) {
    const NodeShare node = nodes.Find(left);
    shares.push_back(nodes.Take(node, std::min(left, node.count)));
    left -= shares.back().count;
  }
}

}  // namespace

ReplicaPacking::ReplicaPacking(const NodeIndex& index, int size)
    : index_(index),
      size_(size),
      room_(index.size()),
      islands_(index.island_racks().size()),
      racks_(index.racks().size()) {}

void ReplicaPacking::SetRoom(int node, int room) {
  const int before = std::exchange(room_[node], room);
  // Returns how many more replicas fit into the domain.
  const auto change = [&](Domain& domain) {
    const int fit = domain.room / size_;
    domain.room += room - before;
    domain.largest = std::max(domain.largest, room);
    return domain.room / size_ - fit;
  };
  Domain& island = islands_[index_.island(node)];
  Domain& rack = racks_[index_.rack(node)];
  const std::array<int, 3> more = {room / size_ - before / size_, change(island), change(rack)};
  change(all_);
  for (Domain* domain : {&island, &rack, &all_}) {
    for (size_t span = 0; span < more.size(); ++span) domain->fit[span] += more[span];
  }
}

Span ReplicaPacking::Narrowest(int replicas, Span widest) const {
  for (const Span span : {Span::kNode, Span::kIsland, Span::kRack}) {
    if (span < widest && Fit(span) >= replicas) return span;
  }
  return widest;
}

std::vector<NodeShare> ReplicaPacking::Pack(int replicas, Span widest) const {
  const Span span = Narrowest(replicas, widest);
  Rooms shares;
  if (span == Span::kAnywhere) {
    Rooms rooms;
    for (int n = 0; n < index_.size(); ++n) {
      if (room_[n] > 0) rooms.push_back({n, room_[n]});
    }
    Fill(rooms, replicas, shares);
    return shares;
  }
  std::vector<bool> open(racks_.size(), true);
  while (true) {
    const int rack = FindLargestRack(span, open);
    const int fit = FitInto(racks_[rack], span);
    if (fit >= replicas) break;
    Fill(Members(rack, -1), fit, shares);
    replicas -= fit;
    open[rack] = false;
  }
  FillOneDomain(span, open, replicas, shares);
  return shares;
}

int ReplicaPacking::FindLargestRack(Span span, const std::vector<bool>& open) const {
  int best = -1;
  for (int rack = 0; rack < static_cast<int>(racks_.size()); ++rack) {
    if (!open[rack]) continue;
    if (best < 0 || FitInto(racks_[rack], span) > FitInto(racks_[best], span)) best = rack;
  }
  return best;
}

// The smallest node with so much room; -1: there is none.
int ReplicaPacking::FindNode(const std::vector<bool>& open, int room) const {
  int best = -1;
  for (int n = 0; all_.largest >= room && n < index_.size(); ++n) {
    if (room_[n] < room || (best >= 0 && room_[n] >= room_[best])) continue;
    if (open[index_.rack(n)]) best = n;
  }
  return best;
}

// Of the islands, or the racks, into which so many replicas fit: one with the fewest nodes, then
// the smallest; -1: there is none.
int ReplicaPacking::FindEnough(Span kind, Span span, const std::vector<bool>& open,
                               int replicas) const {
  const bool is_rack = kind == Span::kRack;
  const std::vector<Domain>& domains = is_rack ? racks_ : islands_;
  int best = -1;
  std::pair<int, int> least;
  for (int d = 0; d < static_cast<int>(domains.size()); ++d) {
    const Domain& domain = domains[d];
    if (FitInto(domain, span) < replicas || !open[is_rack ? d : index_.island_racks()[d]]) continue;
    const std::pair<int, int> cost = {(replicas * size_ + domain.largest - 1) / domain.largest,
                                      domain.room};
    if (best >= 0 && !(cost < least)) continue;
    best = d;
    least = cost;
  }
  return best;
}

std::vector<NodeShare> ReplicaPacking::Members(int rack, int island) const {
  Rooms members;
  for (const int n : index_.racks()[rack]) {
    if (room_[n] == 0 || (island >= 0 && index_.island(n) != island)) continue;
    members.push_back({n, room_[n]});
  }
  return members;
}

// All within one domain, of the narrowest kind that has such a one. Requires: a rack is one.
void ReplicaPacking::FillOneDomain(Span span, const std::vector<bool>& open, int replicas,
                                   std::vector<NodeShare>& shares) const {
  if (span == Span::kNode) {
    if (const int node = FindNode(open, replicas * size_); node >= 0) {
      shares.push_back({node, replicas * size_});
      return;
    }
  }
  if (span <= Span::kIsland) {
    if (const int island = FindEnough(Span::kIsland, span, open, replicas); island >= 0) {
      Fill(Members(index_.island_racks()[island], island), replicas, shares);
      return;
    }
  }
  Fill(Members(FindEnough(Span::kRack, span, open, replicas), -1), replicas, shares);
}

// Requires: so many replicas fit into these nodes.
void ReplicaPacking::Fill(const std::vector<NodeShare>& rooms, int replicas,
                          std::vector<NodeShare>& shares) const {
  NodesByRoom nodes(rooms);
  while (replicas > 0) {
    const NodeShare node = nodes.Find(replicas * size_);
    const int whole = std::min(replicas, node.count / size_);
    if (whole == 0) break;
    shares.push_back(nodes.Take(node, whole * size_));
    replicas -= whole;
  }
  Rooms rest = nodes.rooms();
  for (const Span span : {Span::kIsland, Span::kRack, Span::kAnywhere}) {
    if (replicas == 0) break;
    const std::vector<Group> groups = GroupsByRoom(index_, span, rest);
    rest.clear();
    for (const Group& group : groups) {
      NodesByRoom left(group.rooms);
      for (int room = group.room; room >= size_ && replicas > 0; room -= size_) {
        FillReplica(size_, left, shares);
        --replicas;
      }
      Append(left.rooms(), rest);
    }
  }
}

}  // namespace paceline
