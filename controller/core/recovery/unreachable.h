// What unreachable nodes mean for a running job. A node that does not answer may be dead, frozen,
// or merely cut off: its ranks are given up once others wait for them, or once its lease has run
// out.
//
// If all nodes of a job's members are unreachable or about to be, and there are several, probably
// the controller is cut off, and they train on with each other. Their silence then does not count
// until one of them is back and the others have had time to follow. (If a worker has all ranks of a
// job, it ends them itself when its lease has run out.)
#ifndef CONTROLLER_CORE_RECOVERY_UNREACHABLE_H_
#define CONTROLLER_CORE_RECOVERY_UNREACHABLE_H_

#include <set>
#include <string>

#include "controller/core/job/job.h"

namespace paceline {

// How long others must have waited for an unreachable node's rank before it is given up.
inline constexpr absl::Duration kEvidencePatience = absl::Seconds(2);
// A node that has not reported for this long may be about to be unreachable. Nodes report every
// second.
inline constexpr absl::Duration kFreshness = absl::Seconds(3);
// How long after the controller started, or after a silence of all nodes, workers may take to
// connect again.
inline constexpr absl::Duration kReconnectGrace = absl::Seconds(10);

// Whether all nodes of the members, and there are several, are unreachable or about to be: what
// they do with each other is not known, and nothing can be told to them.
bool AreAllSilent(const Job& job, Moment now);

// Text for people: what a drain in mode now of the node waits for meanwhile, and what to do.
std::string WhatSilenceWaitsFor(const NodeName& node);

// The ranks on an unreachable node are to be ended by a drain, but all nodes are silent: keeps that
// in mind, for people. Does nothing while the workers may still connect to a new controller.
JobChange NoteWaitingDrain(Job& job, const NodeName& node, const std::string& why, Moment now);

// Sets which nodes do not answer now.
void SetUnreachableNodes(Job& job, const std::set<NodeName>& unreachable, Moment now);

// A node counts as lost, as its lease has run out. Its ranks are given up at once, or when it
// counts that it is unreachable.
JobChange TakeLostNode(Job& job, const NodeName& node, const std::string& why, Moment now);

// The controller has restarted: no worker can have connected yet.
void RestoreUnreachable(Job& job, Moment now);

// Whether being unreachable is evidence now. Call it at each event: it notices when that begins and
// ends.
bool DoesUnreachableCount(Job& job, Moment now);

// While being unreachable counts: gives up the trainers on lost nodes.
JobChange LoseNodes(Job& job, Moment now);
// While being unreachable counts: gives up the members that others have waited for in vain.
void GiveUpUnreachable(Job& job, Moment now);

// When the member will be given up as unreachable; infinite: never, as far as is known.
absl::Time UnreachableUntil(const Job& job, const RankState& member);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_UNREACHABLE_H_
