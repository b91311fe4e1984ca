// Decides from its controllers' answers whether a node may keep its lease while nobody leads.
//
// All controllers must answer "I stand by, and nobody leads". When each has answered so to a
// question sent at t or later, any later leader began to lead after t, because
//   - a controller says so only before it begins to lead: from its election on, which comes before
//     it loads the state, it names itself (controller/election/leadership.h);
//   - a controller that no longer leads exits: whoever answers at its address later is a process
//     that has never led;
//   - a question is answered after it was sent, however late the answer arrives.
// A new leader counts the leases of all nodes from its start, and waits a margin longer
// (RestoreNode in controller/core/node/node.h). So it does not count this node as LOST before t
// plus a lease, and the node keeps its ranks until then, as if a report sent at t had been
// answered. The node must still hold its lease when the last answer arrives: an earlier leader may
// have counted it as LOST, but not before the lease had run out.
//
// A controller that does not answer may be leading, unseen from here, so nothing is known. The same
// holds when a named leader is not in the list, since there may be more; and with a single address,
// which may stand for several controllers or be one of several.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_CORE_STANDBY_ANSWERS_H_
#define WORKER_DAEMON_CORE_STANDBY_ANSWERS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace paceline {

class StandbyAnswers {
 public:
  // `controllers`: the HOST:PORT of every controller that can lead; each names one controller.
  explicit StandbyAnswers(const std::vector<std::string>& controllers);

  // The controller at `address` answered a question sent at `sent` (on the leases' clock): it
  // stands by, and nobody leads.
  void NobodyLeads(const std::string& address, absl::Time sent);

  // A standby named `leader` as the leader. True for the first one that is not in the list.
  bool Named(const std::string& leader);

  // Time after which any future leader began to lead; InfinitePast when unknown.
  absl::Time LeadsSince() const;

  // Addresses that have not confirmed since `since` that nobody leads, sorted, then an unlisted
  // leader; with fewer than two controllers, all.
  std::vector<std::string> MayLead(absl::Time since) const;

  size_t size() const { return asked_.size(); }

 private:
  std::map<std::string, absl::Time> asked_;  // By address; InfinitePast: never answered so.
  std::string unlisted_;                     // A named leader that is not in the list, or empty.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_STANDBY_ANSWERS_H_
