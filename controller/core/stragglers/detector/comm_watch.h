// Which of the groups of ranks that exchange equal volumes is slow: those of one level of a ladder,
// or of one kind of collective.
//
// A collective's duration on a rank contains its wait for the others, so the member that waited
// least came last: its duration is the closest to the transfer itself, and needs no common clock.
// The transfer of a group, the least of its members' durations, is compared with that of the other
// groups as the detector compares ranks: residual, evidence, verification, states. It is slow from
// 10 % on. A slow transfer is the network's, or the volume's: never a reason to drain.
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

// Of one group; `verdict.rank`, `verdict.node` and `verdict.peer_group` are -1, `verdict.cause`
// kCommunication, `verdict.slowdown` that of the transfer.
struct CommVerdict {
  Verdict verdict;
  int group = 0;        // Index.
  int waits_least = 0;  // The rank that came last the most often lately,
  double share = 0;     // in so many of the steps: with many, it is that rank which delays them.
};

class CommWatch {
 public:
  // Ranks by group. Warm-up and waiting for reports are as with ranks; at least `min_peers` other
  // groups are needed for a verdict. min_slowdown and max_slowdown are ln 1.1 here.
  CommWatch(DetectorOptions options, std::vector<std::vector<int>> groups);

  // One collective, or the sum of those of a step: seconds by member, in the group's order, and
  // what the job took since the collective before. A member's 0 means not reported: without all of
  // them nothing can be told. Appends what that makes known.
  void Add(int group, int64_t step, absl::Span<const double> durations_s, double job_s,
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

  const double max_job_s_;
  const std::vector<std::vector<int>> groups_;
  StragglerDetector detector_;
  std::vector<Lateness> lateness_;  // By group.
  std::vector<Verdict> found_;      // Scratch.
  int64_t invalid_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_COMM_WATCH_H_
