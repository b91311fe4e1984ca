#include "controller/core/schedule/replica_packing.h"

#include <algorithm>
#include <iterator>
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
    Rooms rooms;
    for (const auto& [room, node] : nodes_) rooms.push_back({node, -room});
    return rooms;
  }

 private:
  std::set<std::pair<int, int>> nodes_;  // {-room, node}
};

struct Domain {
  Rooms rooms;
  int room = 0;      // Blocks on all of its nodes together.
  int largest = 0;   // No node has room for more blocks than this.
  int replicas = 0;  // That fit into it, each within a domain of Packer::span_.
};

class Packer {
 public:
  Packer(const NodeIndex& index, const Rooms& rooms, const RankBlocks& blocks)
      : index_(index), size_(blocks.per_replica), span_(Narrowest(rooms, blocks)) {}

  PackedReplicas Pack(const Rooms& rooms, int replicas) const {
    PackedReplicas packed{span_, {}};
    std::vector<Domain> racks = Split(rooms, std::max(Span::kRack, span_));
    std::stable_sort(racks.begin(), racks.end(),
                     [](const Domain& a, const Domain& b) { return a.replicas > b.replicas; });
    auto rack = racks.begin();
    for (; rack->replicas < replicas; ++rack) {
      Append(Fill(rack->rooms, rack->replicas), packed.shares);
      replicas -= rack->replicas;
    }
    Rooms rest;
    for (; rack != racks.end(); ++rack) Append(rack->rooms, rest);
    Append(FillOneDomain(rest, replicas), packed.shares);
    return packed;
  }

 private:
  // The narrowest kind of domain with which all replicas fit.
  Span Narrowest(const Rooms& rooms, RankBlocks blocks) const {
    const Span widest = blocks.span;
    for (const Span span : {Span::kNode, Span::kIsland, Span::kRack}) {
      if (span >= widest) break;
      blocks.span = span;
      BlockCount count(index_, blocks);
      for (const NodeShare& node : rooms) count.Add(node.node, node.count);
      if (count.total() >= blocks.count) return span;
    }
    return widest;
  }

  // The domains of a kind, by number, without empty ones. Those narrower than span_ have no use for
  // their `replicas`.
  std::vector<Domain> Split(const Rooms& rooms, Span span) const {
    std::vector<Domain> domains(index_.CountDomains(span));
    std::vector<int> within(index_.CountDomains(span_));  // By domain of span_: blocks.
    for (const NodeShare& node : rooms) {
      Domain& domain = domains[index_.DomainOf(span, node.node)];
      domain.rooms.push_back(node);
      domain.room += node.count;
      domain.largest = std::max(domain.largest, node.count);
      int& room = within[index_.DomainOf(span_, node.node)];
      domain.replicas += (room + node.count) / size_ - room / size_;
      room += node.count;
    }
    domains.erase(std::remove_if(domains.begin(), domains.end(),
                                 [](const Domain& domain) { return domain.rooms.empty(); }),
                  domains.end());
    return domains;
  }

  // All within one domain, of the narrowest kind that has such a one. Requires: there is one.
  Rooms FillOneDomain(const Rooms& rooms, int replicas) const {
    Rooms best;
    for (const Span span : {Span::kNode, Span::kIsland, Span::kRack, Span::kAnywhere}) {
      if (span < span_ || !best.empty()) continue;
      std::pair<int, int> least;
      for (const Domain& domain : Split(rooms, span)) {
        if (domain.replicas < replicas) continue;
        const int nodes = (replicas * size_ + domain.largest - 1) / domain.largest;
        if (!best.empty() && !(std::make_pair(nodes, domain.room) < least)) continue;
        Rooms shares = Fill(domain.rooms, replicas);
        const std::pair<int, int> cost = {static_cast<int>(shares.size()), domain.room};
        if (!best.empty() && !(cost < least)) continue;
        best = std::move(shares);
        least = cost;
      }
    }
    return best;
  }

  // Requires: so many replicas fit into these nodes.
  Rooms Fill(const Rooms& rooms, int replicas) const {
    Rooms shares;
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
      std::vector<Domain> domains = SplitByRoom(rest, span);
      rest.clear();
      for (const Domain& domain : domains) {
        NodesByRoom left(domain.rooms);
        for (int room = domain.room; room >= size_ && replicas > 0; room -= size_) {
          FillReplica(left, shares);
          --replicas;
        }
        Append(left.rooms(), rest);
      }
    }
    return shares;
  }

  // The domains of a kind, those with the most room first.
  std::vector<Domain> SplitByRoom(const Rooms& rooms, Span span) const {
    std::vector<Domain> domains = Split(rooms, span);
    std::stable_sort(domains.begin(), domains.end(),
                     [](const Domain& a, const Domain& b) { return a.room > b.room; });
    return domains;
  }

  // Appends the shares of one replica, of as few nodes as possible. Requires: the nodes hold it.
  void FillReplica(NodesByRoom& nodes, Rooms& shares) const {
    for (int left = size_; left > 0;) {
      const NodeShare node = nodes.Find(left);
      shares.push_back(nodes.Take(node, std::min(left, node.count)));
      left -= shares.back().count;
    }
  }

  const NodeIndex& index_;
  const int size_;  // Of a replica, in blocks.
  const Span span_;
};

}  // namespace

PackedReplicas PackReplicas(const NodeIndex& index, const std::vector<NodeShare>& rooms,
                            const RankBlocks& blocks) {
  return Packer(index, rooms, blocks).Pack(rooms, blocks.replicas());
}

}  // namespace paceline
