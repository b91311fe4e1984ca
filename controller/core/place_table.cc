#include "controller/core/place_table.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace paceline {

PlaceTable::PlaceTable(const std::vector<NodeSpace>& nodes, const NodeIndex& index)
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

void PlaceTable::Keep(int index, int count) {
  const int kept = std::min(room_[index], std::max(0, count));
  room_[index] -= kept;
  kept_[index] += kept;
  ++version_;
}

PlaceTable::Packed PlaceTable::Pack(const JobRequest& job) const {
  std::vector<NodeRoom> rooms;
  rooms.reserve(room_.size());
  index_.Allowed(job.placement, /*with_pool=*/false).ForEach([&](int n) {
    if (room_[n] > 0) rooms.push_back({n, room_[n], index_.rack(n), index_.island(n)});
  });
  Packed packed;
  if (job.placement.same.empty()) {
    for (const NodeRoom& room : rooms) packed.room += room.room;
  } else {
    packed.room = KeepOneGroup(job, rooms);
  }
  if (packed.room >= job.ranks) {
    packed.shares = paceline::Pack(rooms, job.ranks, index_.domains());
  }
  return packed;
}

int PlaceTable::KeepOneGroup(const JobRequest& job, std::vector<NodeRoom>& rooms) const {
  struct Sum {
    int room = 0;
    int largest = 0;
  };
  const std::vector<int>& groups = index_.Groups(job.placement.same);
  std::vector<Sum> sums(nodes_.size());
  for (const NodeRoom& room : rooms) {
    if (groups[room.node] < 0) continue;
    Sum& sum = sums[groups[room.node]];
    sum.room += room.room;
    sum.largest = std::max(sum.largest, room.room);
  }
  const auto cost = [&](const Sum& sum) {
    const bool enough = sum.room >= job.ranks;
    const int nodes = enough ? (job.ranks + sum.largest - 1) / sum.largest : 0;
    return std::make_tuple(!enough, nodes, enough ? sum.room : -sum.room);
  };
  const auto best =
      std::min_element(sums.begin(), sums.end(),
                       [&](const Sum& a, const Sum& b) { return cost(a) < cost(b); }) -
      sums.begin();
  rooms.erase(std::remove_if(rooms.begin(), rooms.end(),
                             [&](const NodeRoom& room) { return groups[room.node] != best; }),
              rooms.end());
  int most = 0;
  for (const Sum& sum : sums) most = std::max(most, sum.room);
  return most;
}

std::vector<Place> PlaceTable::Take(const std::vector<NodeShare>& shares) {
  std::vector<Place> places;
  for (const NodeShare& share : shares) {
    for (int i = 0; i < share.count; ++i) places.push_back(TakeOne(share.node));
  }
  return places;
}

Place PlaceTable::TakeOne(int index) {
  --(room_[index] > 0 ? room_[index] : kept_[index]);
  ++version_;
  const NodeSpace& node = nodes_[index];
  return {node.name, node.free[used_[index]++], std::string(index_.Label(index, "rack"))};
}

NodeIndex IndexOf(const std::vector<NodeSpace>& nodes) {
  std::vector<NodeIndex::NodeLabels> labels;
  labels.reserve(nodes.size());
  for (const NodeSpace& node : nodes) labels.push_back({&node.name, node.labels});
  return NodeIndex(std::move(labels));
}

}  // namespace paceline
