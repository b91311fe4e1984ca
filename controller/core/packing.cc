#include "controller/core/packing.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace paceline {
namespace {

struct Domain {
  int room = 0;
  int largest = 0;  // Node's room, at most.
  int rack = 0;     // That it is in, or is.
};

class Packing {
 public:
  Packing(const std::vector<NodeRoom>& rooms, int domains)
      : racks_(domains), islands_(domains), begin_(domains + 1) {
    for (const NodeRoom& room : rooms) {
      Add(room, racks_[room.rack]);
      Add(room, islands_[room.island]);
      largest_ = std::max(largest_, room.room);
      ++begin_[room.rack + 1];
    }
    for (size_t d = 1; d < begin_.size(); ++d) begin_[d] += begin_[d - 1];
    rooms_.resize(rooms.size());
    std::vector<int> next(begin_.begin(), begin_.end() - 1);
    for (const NodeRoom& room : rooms) rooms_[next[room.rack]++] = room;
  }

  std::vector<NodeShare> Pack(int count) {
    left_ = count;
    int rack = -1;  // To which what is left is confined; -1: none.
    while (left_ > 0) {
      if (TakeFromOneNode(rack)) break;
      if (const int island = FindEnough(islands_, rack); island >= 0) {
        Fill(island);
        break;
      }
      if (rack < 0) rack = FindEnough(racks_, -1);
      if (rack >= 0) {
        TakeIsland(FindLargest(islands_, rack));
      } else {
        TakeRack(FindLargest(racks_, -1));
      }
    }
    return std::move(shares_);
  }

 private:
  static void Add(const NodeRoom& room, Domain& domain) {
    domain.room += room.room;
    domain.largest = std::max(domain.largest, room.room);
    domain.rack = room.rack;
  }

  void Take(const NodeRoom& room) {
    const int count = std::min(room.room, left_);
    shares_.push_back({room.node, count});
    left_ -= count;
  }

  // The smallest node that holds all that is left.
  bool TakeFromOneNode(int rack) {
    if ((rack < 0 ? largest_ : racks_[rack].largest) < left_) return false;
    const NodeRoom* best = nullptr;
    const auto end = rooms_.begin() + (rack < 0 ? begin_.back() : begin_[rack + 1]);
    for (auto room = rooms_.begin() + (rack < 0 ? 0 : begin_[rack]); room != end; ++room) {
      if (room->room >= left_ && (best == nullptr || std::make_pair(room->room, room->node) <
                                                         std::make_pair(best->room, best->node)))
        best = &*room;
    }
    if (best == nullptr) return false;
    Take(*best);
    return true;
  }

  // Of those that hold all that is left the one with fewest nodes, then the smallest; -1: none.
  int FindEnough(const std::vector<Domain>& domains, int rack) const {
    const auto cost = [this](const Domain& domain) {
      return std::make_pair((left_ + domain.largest - 1) / domain.largest, domain.room);
    };
    int best = -1;
    for (int d = 0; d < static_cast<int>(domains.size()); ++d) {
      if (domains[d].room < left_ || (rack >= 0 && domains[d].rack != rack)) continue;
      if (best < 0 || cost(domains[d]) < cost(domains[best])) best = d;
    }
    return best;
  }

  static int FindLargest(const std::vector<Domain>& domains, int rack) {
    int best = -1;
    for (int d = 0; d < static_cast<int>(domains.size()); ++d) {
      if (rack >= 0 && domains[d].rack != rack) continue;
      if (best < 0 || domains[d].room > domains[best].room) best = d;
    }
    return best;
  }

  // Of a rack, or one of its islands; those with the most room first.
  std::vector<NodeRoom> Members(int rack, int island) const {
    std::vector<NodeRoom> members;
    for (int r = begin_[rack]; r < begin_[rack + 1]; ++r) {
      if (rooms_[r].room > 0 && (island < 0 || rooms_[r].island == island)) {
        members.push_back(rooms_[r]);
      }
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const NodeRoom& a, const NodeRoom& b) { return a.room > b.room; });
    return members;
  }

  void TakeRack(int rack) {
    for (const NodeRoom& room : Members(rack, -1)) Take(room);
    for (int r = begin_[rack]; r < begin_[rack + 1]; ++r) {
      islands_[rooms_[r].island].room = 0;
      rooms_[r].room = 0;
    }
    racks_[rack].room = 0;
  }

  void TakeIsland(int island) {
    const int rack = islands_[island].rack;
    for (const NodeRoom& room : Members(rack, island)) Take(room);
    for (int r = begin_[rack]; r < begin_[rack + 1]; ++r) {
      if (rooms_[r].island == island) rooms_[r].room = 0;
    }
    racks_[rack].room -= std::exchange(islands_[island].room, 0);
  }

  // All that is left from one island: its largest nodes, and the smallest that holds the rest.
  void Fill(int island) {
    const std::vector<NodeRoom> rooms = Members(islands_[island].rack, island);
    for (auto room = rooms.begin(); left_ > 0; ++room) {
      if (room->room < left_) {
        Take(*room);
        continue;
      }
      // Of those behind it that are large enough too the smallest, and the first of these.
      const auto end = std::partition_point(
          room, rooms.end(), [this](const NodeRoom& other) { return other.room >= left_; });
      const int smallest = (end - 1)->room;
      Take(*std::partition_point(room, end,
                                 [=](const NodeRoom& other) { return other.room > smallest; }));
    }
  }

  std::vector<Domain> racks_, islands_;  // By number; of what is not taken.
  std::vector<int> begin_;               // By rack: where its nodes begin in rooms_.
  std::vector<NodeRoom> rooms_;          // By rack; 0 once they are taken.
  int largest_ = 0;
  int left_ = 0;
  std::vector<NodeShare> shares_;
};

}  // namespace

std::vector<NodeShare> Pack(const std::vector<NodeRoom>& rooms, int count, int domains) {
  int sum = 0;
  for (const NodeRoom& room : rooms) sum += room.room;
  if (sum < count) return {};
  return Packing(rooms, domains).Pack(count);
}

}  // namespace paceline
