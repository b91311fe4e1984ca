// Finds which of several groups of ranks that exchange equal volumes is slow: the groups of one
// level of a ladder, or of one kind of collective.
//
// A collective's duration on a rank contains its wait for the others. The member that waited least
// came last, so its duration is closest to that of the transfer itself, and needs no common clock.
// A group's transfer, the least of its members' durations, is compared with those of the other
// groups as the detector compares ranks: residual, evidence, verification, states. It is slow from
// 10 % on. A slow transfer is due to the network or the volume, and never a reason to drain.
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

// About one group. `verdict.rank`, `verdict.node` and `verdict.peer_group` are -1, `verdict.cause`
// is kCommunication, and `verdict.slowdown` that of the transfer.
struct CommVerdict {
  Verdict verdict;
  int group = 0;        // Index of the group.
  int waits_least = 0;  // The rank that came last most often lately,
  double share = 0;     // in this share of the steps. If it is large, that rank delays them.
};

class CommWatch {
 public:
  // `groups`: the ranks of each group. Warm-up and waiting for reports are as with ranks. A verdict
  // needs at least `min_peers` other groups. min_slowdown and max_slowdown are ln 1.1 here.
  CommWatch(DetectorOptions options, std::vector<std::vector<int>> groups);

  // Takes in one collective, or the sum of those of a step, and appends what that makes known.
  // `durations_s`: by member, in the group's order; if one is 0, which means not reported, nothing
  // can be known. `job_s`: what the job took since the collective before.
  void Add(int group, int64_t step, absl::Span<const double> durations_s, double job_s,
           std::vector<CommVerdict>& verdicts);

  // kTooFewPeers: too few groups can be compared. Requires: `group` is in the list.
  RankStatus status(int group) const { return detector_.status(group); }

  // How many collectives lacked members, were of unknown groups, or had impossible durations.
  int64_t invalid() const { return invalid_ + detector_.counts().invalid; }

 private:
  // How often each member came last; older steps count less.
  struct Lateness {
    double steps = 0;
    std::vector<double> last;
  };

  void Translate(std::vector<CommVerdict>& verdicts);

  const double max_job_s_;
  const std::vector<std::vector<int>> groups_;
  StragglerDetector detector_;
  std::vector<Lateness> lateness_;  // By group.
  std::vector<Verdict> found_;      // Scratch.
  int64_t invalid_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_COMM_WATCH_H_
