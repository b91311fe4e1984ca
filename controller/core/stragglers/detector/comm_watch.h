// Which communication is slow: for each level of a ladder (or kind of collective) the groups of
// ranks that exchange equal volumes are compared with each other.
//
// A collective's duration on a rank contains its wait for the others, so the member that waited
// least came last: its duration is the closest to the transfer itself, and needs no common clock.
// The transfer of a group, the least of its members' durations, is compared with that of the other
// groups of the level as the detector compares ranks: residual, evidence, verification, states. It
// is slow from 10 % on. A slow transfer is the network's, or the volume's: never a reason to drain.
//
// Pure, as StragglerDetector; thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_COMM_WATCH_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_COMM_WATCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/detector.h"
#include "controller/core/stragglers/detector/verdict.h"

namespace paceline {

struct CommGroup {
  int level = 0;
  std::vector<int> ranks;
};

// Of one group; `verdict.rank` is -1, `verdict.peer_group` the level, `verdict.cause`
// kCommunication, `verdict.slowdown` that of the transfer, `verdict.lost_share` that of the
// communication's time.
struct CommVerdict {
  Verdict verdict;
  int group = 0;        // Index.
  int waits_least = 0;  // The rank that came last the most often lately,
  double share = 0;     // in so many of the steps: with many, it is that rank which delays them.
};

class CommWatch {
 public:
  // Warm-up and waiting for reports are as with ranks; at least `min_peers` other groups of the
  // level are needed for a verdict. min_slowdown and max_slowdown are ln 1.1 here.
  CommWatch(DetectorOptions options, std::vector<CommGroup> groups);

  // One collective, or the sum of those of a step: seconds by member, in the group's order. A
  // member's 0 means not reported: without all of them nothing can be told. Appends what that makes
  // known.
  void Add(int group, int64_t step, absl::Span<const double> durations_s,
           std::vector<CommVerdict>& verdicts);

  // kTooFewPeers: too few groups are comparable. Requires: a group of the list.
  RankStatus status(int group) const { return detector_.status(group); }

  // Collectives without all members, of unknown groups, or with durations that make no sense.
  int64_t invalid() const { return invalid_ + detector_.counts().invalid; }

 private:
  // How often each member came last; forgetting.
  struct Lateness {
    double steps = 0;
    std::vector<double> last;
  };

  void Translate(std::vector<CommVerdict>& verdicts);

  const std::vector<CommGroup> groups_;
  StragglerDetector detector_;
  std::vector<Lateness> lateness_;  // By group.
  std::vector<Verdict> found_;      // Scratch.
  int64_t invalid_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_COMM_WATCH_H_
