// What silent nodes mean for a running job. A node that does not answer may be dead, frozen, or
// merely cut off: its ranks are given up once others wait for them, or once its lease has run out.
//
// If all nodes of a job's members are silent or about to be, and there are several, probably the
// controller is cut off, and they train on with each other. Their silence then does not count until
// one of them is back and the others have had time to follow. (If a worker has all ranks of a job,
// it ends them itself when its lease has run out.)
#ifndef CONTROLLER_CORE_RECOVERY_SILENCE_H_
#define CONTROLLER_CORE_RECOVERY_SILENCE_H_

#include <set>
#include <string>

#include "controller/core/job/job.h"

namespace paceline {

// How long others must have waited for a silent node's rank before it is given up.
inline constexpr absl::Duration kEvidencePatience = absl::Seconds(2);
// A node that has not reported for this long may be about to be silent. Nodes report every second.
inline constexpr absl::Duration kFreshness = absl::Seconds(3);
// How long after the controller started, or after a silence of all nodes, workers may take to
// connect again.
inline constexpr absl::Duration kReconnectGrace = absl::Seconds(10);

// Sets which nodes do not answer now.
void SetSilentNodes(Job& job, const std::set<NodeName>& silent, Moment now);

// A node counts as lost, as its lease has run out. Its ranks are given up at once, or when its
// silence counts.
JobChange TakeLostNode(Job& job, const NodeName& node, const std::string& why, Moment now);

// The controller has restarted: no worker can have connected yet.
void RestoreSilence(Job& job, Moment now);

// Whether silence is evidence now. Call it at each event: it notices when that begins and ends.
bool DoesSilenceCount(Job& job, Moment now);

// While silence counts: gives up the trainers on lost nodes.
JobChange LoseNodes(Job& job, Moment now);
// While silence counts: gives up the members that others have waited for in vain.
void GiveUpSilent(Job& job, Moment now);

// When the member will be given up for its silence; infinite: never, as far as is known.
absl::Time SilentUntil(const Job& job, const RankState& member);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_SILENCE_H_
