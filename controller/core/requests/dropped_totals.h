// Counts the step records that nodes have lost, each once, however often a node tells of it.
//
// A node's daemon tells a total, which grows from its start on, and tells it again in each session.
// Of a daemon that was heard before, what exceeds its highest total counts. Of one that was not, as
// after a start of the controller, what exceeds the total that it knows another controller to have
// counted: what that one counted without its knowing counts twice, and nothing is left out.
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
  // A session of the node begins. `daemon` tells its daemon from those before it; `known`: the
  // total that it knows to have been counted.
  void Begin(const NodeName& node, const std::string& daemon, int64_t known);

  // The node has told of so many. Returns how many of them count now; at least 0, whatever it
  // tells.
  int64_t Take(const NodeName& node, int64_t total);

 private:
  struct Daemon {
    std::string uid;
    int64_t counted = 0;  // Of its total.
  };

  std::map<NodeName, Daemon> daemons_;  // The latest of each node that has had a session.
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
