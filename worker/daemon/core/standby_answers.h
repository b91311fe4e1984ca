// Whether a node may hold its lease on while nobody leads: what its controllers have answered.
//
// All of them have to say "I stand by, and nobody leads". When each has answered so to a question
// that was sent at t or later, whoever leads from now on has begun to after t, since
//   - a controller says so before it begins to lead, never after: from its election on, which comes
//     before it takes up the state, it names itself (controller/election/leadership.h);
//   - one that leads no more ends: whoever answers at its address later is a process that has led
//     nobody yet;
//   - a question is answered after it was sent, however late the answer is.
// A controller that begins to lead counts the leases of all nodes from then, and waits a margin
// longer (RestoreNode in controller/core/node/node.h). So none counts this node as LOST before t
// and a lease have passed, and the node holds its ranks until then, as if a report had been
// answered that was sent at t. It must hold them still when the last answer is there: a leader may
// have counted it as LOST before that answered, but not before the lease had run out.
//
// A controller that does not answer may lead, unseen from here: then nothing is known. So it is
// when a leader is named that is not among the controllers, since there may be more; and with a
// single address, which may stand for several controllers, or be one of several.
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
  // `controllers`: the addresses of all that can lead, HOST:PORT, each of one controller.
  explicit StandbyAnswers(const std::vector<std::string>& controllers);

  // The controller at `address` was asked at `sent`, and has answered that it stands by and that
  // nobody leads. `sent` is of the clock of leases.
  void NobodyLeads(const std::string& address, absl::Time sent);

  // A controller that stands by has named this one as the leader. True for the first one that is
  // not among the controllers.
  bool Named(const std::string& leader);

  // Whoever leads from now on has begun to later than then. InfinitePast: not known.
  absl::Time LeadsSince() const;

  // Those of which LeadsSince has not passed `since`, in the order of their names; with fewer than
  // two controllers all.
  std::vector<std::string> MayLead(absl::Time since) const;

  size_t size() const { return asked_.size(); }

 private:
  std::map<std::string, absl::Time> asked_;  // By address; InfinitePast: has never answered so.
  std::string unlisted_;                     // A leader that is not among them; empty: none is.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_STANDBY_ANSWERS_H_
