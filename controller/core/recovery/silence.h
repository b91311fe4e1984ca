// What the silence of nodes means for a running job. A node that does not answer may be dead,
// frozen, or merely unheard: its ranks are given up once others wait for them, or once its lease
// has run out.
//
// When all nodes of a job's members are silent, or about to be, and there are several, it is as far
// as can be told the controller that is cut off, and they train on with each other: their silence
// does not count until one of them is back and the others have had time to follow. (A worker with
// all ranks of a job ends them itself when its lease has run out.)
#ifndef CONTROLLER_CORE_RECOVERY_SILENCE_H_
#define CONTROLLER_CORE_RECOVERY_SILENCE_H_

#include <set>
#include <string>

#include "controller/core/job/job.h"

namespace paceline {

// A silent node's rank is given up when others have waited for it for so long.
inline constexpr absl::Duration kEvidencePatience = absl::Seconds(2);
// Nodes report every second: one that has not for so long may be about to be silent.
inline constexpr absl::Duration kFreshness = absl::Seconds(3);
// Within this time after a start of the controller, or after a silence of all nodes, the workers
// connect again.
inline constexpr absl::Duration kReconnectGrace = absl::Seconds(10);

// Which nodes do not answer now.
void SetSilentNodes(Job& job, const std::set<NodeName>& silent, Moment now);

// A node counts as lost: its lease has run out. Its ranks are given up, at once or when its
// silence counts.
JobChange TakeLostNode(Job& job, const NodeName& node, const std::string& why, Moment now);

// The controller has started anew: no worker can have connected yet.
void RestoreSilence(Job& job, Moment now);

// Whether silence is evidence now. To be asked at each event: it sees when that begins and ends.
bool DoesSilenceCount(Job& job, Moment now);

// While silence counts: gives up the trainers on lost nodes, and the members that others have
// waited for in vain.
JobChange LoseNodes(Job& job, Moment now);
void GiveUpSilent(Job& job, Moment now);

// When the member will be given up for its silence; infinite: as far as is known not at all.
absl::Time SilentUntil(const Job& job, const RankState& member);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_SILENCE_H_
