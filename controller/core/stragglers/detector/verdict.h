// What the detector finds.
//
//              evidence           120 slow rows, or recurrence
//   healthy ────────────▶ SUSPECT ────────────────────────────▶ PERSISTENT
//      ▲                     │ normal again: TRANSIENT               │ normal again: RECOVERED
//      ╰─────────────────────┴───────────────────────────────────────╯
//
// A rank may be slow in two ways at once, by its own time and in waiting for data. Each is told
// when it is found, and the end when both are over. NODE sums up the ranks of a node; it is told
// again after fewer than two of them were slow. GROUP is news about the job, never a reason to
// drain.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_VERDICT_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_VERDICT_H_

#include <cstdint>

namespace paceline {

enum class VerdictKind {
  kSuspect,     // The rank is slow.
  kTransient,   // The rank was slow, and no longer is.
  kPersistent,  // The rank is slow, and has been for long or repeatedly.
  kRecovered,   // A persistent rank is no longer slow.
  kNode,        // Several ranks of the node are persistently slow.
  // More than a quarter of a peer group is slow at once, or the group's typical time has risen, or
  // its stage is slower than the others. A group that gets faster is no news.
  kGroup,
};

enum class StragglerCause {
  kCompute,        // Forward and backward.
  kData,           // It waits for its batches.
  kHostPause,      // Forward only: the host does not keep up.
  kCommunication,  // CommWatch only.
  kImbalance,      // Its work is larger, or its stage is.
};

struct Verdict {
  VerdictKind kind = VerdictKind::kSuspect;
  int rank = -1;           // -1 for kNode and kGroup.
  int node = -1;           // -1 for kGroup.
  int peer_group = -1;     // -1 for a kNode whose ranks are of several.
  int64_t step = 0;        // When it was found.
  int64_t since_step = 0;  // Since when it is slow.
  // Its time since then divided by that of its peers, with a 95 % interval. For kData: 1 + the time
  // that it waits longer than its peers, divided by their whole time. For kGroup: the group's time
  // divided by its own earlier one, or by that of the other stages.
  double slowdown = 1;
  double slowdown_low = 1;
  double slowdown_high = 1;
  StragglerCause cause = StragglerCause::kCompute;
  // The share of the job's time since since_step that would have been saved if the slow ranks were
  // as fast as the slowest healthy one. For kGroup: the share of the time since then that is lost
  // if all others wait for the group.
  double lost_share = 0;
  // Episodes of this rank within the recurrence window, including this one, without those that it
  // shared with more than a quarter of its peers.
  int episodes = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_VERDICT_H_
