#include "controller/core/schedule/packing.h"

#include <algorithm>
#include <utility>

namespace paceline {

Packing::Packing(const NodeIndex& index)
    : index_(index),
      room_(index.size()),
      racks_(index.racks().size()),
      islands_(index.island_racks().size()) {}

void Packing::SetRoom(int node, int room) {
  const int change = room - std::exchange(room_[node], room);
  total_ += change;
  largest_ = std::max(largest_, room);
  for (Domain* domain : {&racks_[index_.rack(node)], &islands_[index_.island(node)]}) {
    domain->room += change;
    domain->largest = std::max(domain->largest, room);
  }
}

std::vector<NodeShare> Packing::Pack(int count) {
  if (total_ < count) return {};
  left_ = count;
  shares_.clear();
  std::vector<std::pair<int, int>> before;  // Rooms of nodes taken whole, to be restored.
  const auto take_all = [&](const std::vector<int>& nodes) {
    for (const int n : nodes) before.emplace_back(n, room_[n]);
    TakeAll(nodes);
  };
  int rack = -1;
  while (left_ > 0) {
    if (TakeFromOneNode(rack)) break;
    if (const int island = FindEnough(islands_, rack); island >= 0) {
      Fill(Members(index_.island_racks()[island], island));
      break;
    }
    if (rack < 0) rack = FindEnough(racks_, -1);
    if (rack >= 0) {
      take_all(Members(rack, FindLargest(islands_, rack)));
    } else {
      take_all(Members(FindLargest(racks_, -1), -1));
    }
  }
  for (const auto& [node, room] : before) SetRoom(node, room);
  return std::move(shares_);
}

void Packing::Take(int node) {
  const int count = std::min(room_[node], left_);
  shares_.push_back({node, count});
  left_ -= count;
}

// Takes all that is left from the smallest node that holds it. False: there is none.
bool Packing::TakeFromOneNode(int rack) {
  if ((rack < 0 ? largest_ : racks_[rack].largest) < left_) return false;
  int best = -1;
  const auto look = [&](int n) {
    if (room_[n] >= left_ && (best < 0 || room_[n] < room_[best])) best = n;
  };
  if (rack >= 0) {
    for (const int n : index_.racks()[rack]) look(n);
  } else {
    for (int n = 0; n < index_.size(); ++n) look(n);
  }
  if (best < 0) return false;
  Take(best);
  return true;
}

// Of domains that hold all that is left: one with the fewest nodes, then the smallest; -1: none.
int Packing::FindEnough(const std::vector<Domain>& domains, int rack) const {
  int best = -1;
  std::pair<int, int> least;
  for (int d = 0; d < static_cast<int>(domains.size()); ++d) {
    const Domain& domain = domains[d];
    if (domain.room < left_ || (rack >= 0 && index_.island_racks()[d] != rack)) continue;
    const std::pair<int, int> cost = {(left_ + domain.largest - 1) / domain.largest, domain.room};
    if (best >= 0 && !(cost < least)) continue;
    best = d;
    least = cost;
  }
  return best;
}

int Packing::FindLargest(const std::vector<Domain>& domains, int rack) const {
  int best = -1;
  for (int d = 0; d < static_cast<int>(domains.size()); ++d) {
    if (rack >= 0 && index_.island_racks()[d] != rack) continue;
    if (best < 0 || domains[d].room > domains[best].room) best = d;
  }
  return best;
}

std::vector<int> Packing::Members(int rack, int island) const {
  std::vector<int> members;
  for (const int n : index_.racks()[rack]) {
    if (room_[n] > 0 && (island < 0 || index_.island(n) == island)) members.push_back(n);
  }
  std::stable_sort(members.begin(), members.end(),
                   [this](int a, int b) { return room_[a] > room_[b]; });
  return members;
}

void Packing::TakeAll(const std::vector<int>& nodes) {
  for (const int n : nodes) {
    Take(n);
    SetRoom(n, 0);
  }
}

// Takes all that is left from the largest nodes, and the rest from the smallest that holds it.
void Packing::Fill(const std::vector<int>& nodes) {
  for (auto node = nodes.begin(); left_ > 0; ++node) {
    if (room_[*node] < left_) {
      Take(*node);
      continue;
    }
    // The smallest of the nodes from here on that are large enough; of equals, the first.
    const auto end = std::partition_point(node, nodes.end(),
                                          [this](int other) { return room_[other] >= left_; });
    const int smallest = room_[*(end - 1)];
    Take(*std::partition_point(node, end, [&](int other) { return room_[other] > smallest; }));
  }
}

}  // namespace paceline
