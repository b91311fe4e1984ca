// Counts the step records that nodes have lost, each once, however often a node reports them.
//
// A node's daemon reports a total, which grows from the daemon's start, and repeats it in each
// session. If the daemon was heard before, what exceeds its highest total counts. If not, as after
// a start of the controller, what exceeds the total that it knows a controller to have counted
// does. What was counted without its knowing then counts twice, but nothing is left out.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_REQUESTS_DROPPED_TOTALS_H_
#define CONTROLLER_CORE_REQUESTS_DROPPED_TOTALS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "common/core/ids.h"

namespace paceline {

class DroppedTotals {
 public:
  // A session of the node begins. `daemon` identifies its daemon; `known`: the total that the
  // daemon knows to have been counted.
  void Begin(const NodeName& node, const std::string& daemon, int64_t known);

  // The node has reported this total. Returns how much of it counts now; at least 0 for any total.
  int64_t Take(const NodeName& node, int64_t total);

 private:
  struct Daemon {
    std::string uid;
    int64_t counted = 0;  // The part of its total that was counted.
  };

  std::map<NodeName, Daemon> daemons_;  // The latest daemon of each node that has had a session.
};

inline void DroppedTotals::Begin(const NodeName& node, const std::string& daemon, int64_t known) {
  Daemon& latest = daemons_[node];
  if (latest.uid != daemon) latest = {daemon, 0};
  latest.counted = std::max(latest.counted, known);
}

inline int64_t DroppedTotals::Take(const NodeName& node, int64_t total) {
  Daemon& latest = daemons_[node];
  if (total <= latest.counted) return 0;
  const int64_t before = latest.counted;
  latest.counted = total;
  return total - before;
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_DROPPED_TOTALS_H_
