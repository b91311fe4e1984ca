// The next deadline of each of many things, and the first of them all. A change of one does not
// look at the others.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_CLUSTER_DEADLINES_H_
#define CONTROLLER_CORE_CLUSTER_DEADLINES_H_

#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace paceline {

template <typename Key>
class Deadlines {
 public:
  // InfiniteFuture(): it has no deadline.
  void Set(const Key& key, absl::Time deadline) {
    const auto known = deadlines_.find(key);
    if (known != deadlines_.end()) {
      if (known->second == deadline) return;
      order_.erase({known->second, key});
      deadlines_.erase(known);
    }
    if (deadline == absl::InfiniteFuture()) return;
    order_.emplace(deadline, key);
    deadlines_.emplace(key, deadline);
  }

  // Removes and returns the keys whose deadline has come, the earliest first.
  std::vector<Key> TakeDue(absl::Time now) {
    std::vector<Key> due;
    while (!order_.empty() && order_.begin()->first <= now) {
      due.push_back(order_.begin()->second);
      Set(due.back(), absl::InfiniteFuture());
    }
    return due;
  }

  // InfiniteFuture(): there is none.
  absl::Time Next() const {
    return order_.empty() ? absl::InfiniteFuture() : order_.begin()->first;
  }

 private:
  absl::flat_hash_map<Key, absl::Time> deadlines_;  // Only looked up: it has no order.
  std::set<std::pair<absl::Time, Key>> order_;      // The same, in order.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_CLUSTER_DEADLINES_H_
