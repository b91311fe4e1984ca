#include "controller/core/packing.h"

#include <algorithm>
#include <tuple>

namespace paceline {
namespace {

struct Domain {
  int room = 0;
  int largest = 0;  // Node's room.
};

class Packing {
 public:
  Packing(std::vector<NodeRoom> rooms, int domains) : rooms_(std::move(rooms)), sums_(domains) {}

  std::vector<NodeShare> Pack(int count) {
    left_ = count;
    while (left_ > 0) {
      if (TakeFromOneNode()) break;
      const int island = FindDomain(&NodeRoom::island, /*enough=*/true);
      if (island >= 0) {
        Fill(&NodeRoom::island, island);
        break;
      }
      const int rack = FindDomain(&NodeRoom::rack, /*enough=*/true);
      if (rack >= 0) {
        KeepOnly(rack);
        TakeWhole(&NodeRoom::island, FindDomain(&NodeRoom::island, /*enough=*/false));
      } else {
        TakeWhole(&NodeRoom::rack, FindDomain(&NodeRoom::rack, /*enough=*/false));
      }
    }
    return std::move(shares_);
  }

 private:
  using Member = int NodeRoom::*;

  void Take(const NodeRoom& room) {
    const int count = std::min(room.room, left_);
    shares_.push_back({room.node, count});
    left_ -= count;
  }

  // The smallest node that holds all that is left.
  bool TakeFromOneNode() {
    const NodeRoom* best = nullptr;
    for (const NodeRoom& room : rooms_) {
      if (room.room >= left_ && (best == nullptr || room.room < best->room)) best = &room;
      if (room.room == left_) break;
    }
    if (best == nullptr) return false;
    Take(*best);
    return true;
  }

  // Of those that hold all that is left, the one with fewest nodes, then the smallest; or else the
  // largest one. -1: none holds it.
  int FindDomain(Member domain, bool enough) {
    std::fill(sums_.begin(), sums_.end(), Domain());
    for (const NodeRoom& room : rooms_) {
      Domain& sum = sums_[room.*domain];
      sum.room += room.room;
      sum.largest = std::max(sum.largest, room.room);
    }
    int best = -1;
    for (int d = 0; d < static_cast<int>(sums_.size()); ++d) {
      if (sums_[d].room == 0 || (enough && sums_[d].room < left_)) continue;
      if (best < 0 ||
          (enough ? Cost(sums_[d]) < Cost(sums_[best]) : sums_[d].room > sums_[best].room)) {
        best = d;
      }
    }
    return best;
  }

  std::pair<int, int> Cost(const Domain& sum) const {
    return {(left_ + sum.largest - 1) / sum.largest, sum.room};
  }

  void KeepOnly(int rack) {
    rooms_.erase(std::remove_if(rooms_.begin(), rooms_.end(),
                                [=](const NodeRoom& room) { return room.rack != rack; }),
                 rooms_.end());
  }

  // Of the domain; the largest first.
  std::vector<NodeRoom> Members(Member domain, int number) const {
    std::vector<NodeRoom> members;
    for (const NodeRoom& room : rooms_) {
      if (room.*domain == number) members.push_back(room);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const NodeRoom& a, const NodeRoom& b) { return a.room > b.room; });
    return members;
  }

  void TakeWhole(Member domain, int number) {
    for (const NodeRoom& room : Members(domain, number)) Take(room);
    rooms_.erase(std::remove_if(rooms_.begin(), rooms_.end(),
                                [=](const NodeRoom& room) { return room.*domain == number; }),
                 rooms_.end());
  }

  // All that is left from one domain: its largest nodes, and the smallest that holds the rest.
  void Fill(Member domain, int number) {
    const std::vector<NodeRoom> rooms = Members(domain, number);
    for (auto room = rooms.begin(); left_ > 0; ++room) {
      if (room->room < left_) {
        Take(*room);
        continue;
      }
      // Rooms are descending: of the last ones that are large enough, the first by name.
      const auto end = std::partition_point(
          room, rooms.end(), [this](const NodeRoom& other) { return other.room >= left_; });
      const int smallest = (end - 1)->room;
      Take(*std::partition_point(room, end,
                                 [=](const NodeRoom& other) { return other.room > smallest; }));
    }
  }

  std::vector<NodeRoom> rooms_;
  std::vector<Domain> sums_;  // By number of the domain.
  int left_ = 0;
  std::vector<NodeShare> shares_;
};

}  // namespace

std::vector<NodeShare> Pack(std::vector<NodeRoom> rooms, int count, int domains) {
  int sum = 0;
  for (const NodeRoom& room : rooms) sum += room.room;
  if (sum < count) return {};
  return Packing(std::move(rooms), domains).Pack(count);
}

}  // namespace paceline
