// What the detector finds.
//
//              evidence           120 slow rows, or recurrence
//   healthy ────────────▶ SUSPECT ────────────────────────────▶ PERSISTENT
//      ▲                     │ normal again: TRANSIENT               │ normal again: RECOVERED
//      ╰─────────────────────┴───────────────────────────────────────╯
//
// A rank may be slow in two ways at once, by its own time and waiting for data: each is told when
// it is found, the end when both are over. NODE adds up the ranks of a node, and is told again
// after fewer than two of them were slow; GROUP is news about the job, never a reason to drain.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_VERDICT_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_VERDICT_H_

#include <cstdint>

namespace paceline {

enum class VerdictKind {
  kSuspect,     // The rank is slow.
  kTransient,   // It was, and is no longer.
  kPersistent,  // It is slow, and has been for long, or again and again.
  kRecovered,   // A persistent one is slow no longer.
  kNode,        // Several ranks of the node are persistently slow.
  // More than a quarter of a peer group is slow at once, or the group's typical time has risen, or
  // the stage is slower than the others. That a group gets faster is no news.
  kGroup,
};

enum class StragglerCause {
  kCompute,        // Forward and backward.
  kData,           // It waits for its batches.
  kHostPause,      // Forward only: the host does not keep up.
  kCommunication,  // CommWatch only.
  kImbalance,      // Its work is larger, or its stage.
};

struct Verdict {
  VerdictKind kind = VerdictKind::kSuspect;
  int rank = -1;           // -1 for kNode and kGroup.
  int node = -1;           // -1 for kGroup.
  int peer_group = -1;     // -1 for kNode with ranks of several.
  int64_t step = 0;        // At which it was found.
  int64_t since_step = 0;  // Since which it is slow.
  // Its time / that of its peers since then, with a 95 % interval; for kData the time it waits more
  // than its peers / their whole time + 1. Of a kGroup: the group's time / its own earlier one, or
  // that of the other stages.
  double slowdown = 1;
  double slowdown_low = 1;
  double slowdown_high = 1;
  StragglerCause cause = StragglerCause::kCompute;
  // The share of the job's time since since_step that would not have been lost, were the ranks that
  // are slow as fast as the slowest healthy one. Of a kGroup: of the time since then, if all others
  // wait for the group.
  double lost_share = 0;
  // Of this rank within the recurrence window, this one included, those left out that it shared
  // with more than a quarter of its peers.
  int episodes = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_VERDICT_H_
