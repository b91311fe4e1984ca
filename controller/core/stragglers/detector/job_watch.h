// What the rows of one membership of a job show about its ranks, nodes and peer groups.
//
// Two quantities of each rank are compared with its peers': its own time, ln(forward + backward),
// scaled to the usual workload if all ranks of the row report theirs; and, if it reports its waits,
// how much longer it waited for data, relative to the peers' own time.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_JOB_WATCH_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_JOB_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/channel.h"
#include "controller/core/stragglers/detector/detector_options.h"
#include "controller/core/stragglers/detector/group_watch.h"
#include "controller/core/stragglers/detector/imbalance.h"
#include "controller/core/stragglers/detector/node_history.h"
#include "controller/core/stragglers/detector/node_past.h"
#include "controller/core/stragglers/detector/peer_residuals.h"
#include "controller/core/stragglers/detector/row_times.h"
#include "controller/core/stragglers/detector/step_sample.h"
#include "controller/core/stragglers/detector/verdict.h"
#include "controller/core/stragglers/detector/work_exponent.h"

namespace paceline {

// kTooFewPeers: neither slow nor healthy can be said.
enum class RankStatus { kWarmingUp, kTooFewPeers, kHealthy, kSuspect, kPersistent };

class JobWatch {
 public:
  // `history` outlives this, and knows these ranks.
  JobWatch(const DetectorOptions& options, std::vector<DetectorRank> ranks, NodeHistory& history);

  // Takes in a row, with cells by rank. Row numbers go on from one membership to the next.
  void AddRow(int64_t step, absl::Span<const StepCell> cells, int64_t row,
              std::vector<Verdict>& verdicts);

  int ranks() const { return static_cast<int>(ranks_.size()); }
  RankStatus status(int rank) const;

 private:
  struct NodeState {
    int node = 0;
    std::vector<int> ranks;
    bool reported = false;  // Whether kNode was told while several ranks are slow.
  };

  void Measure(absl::Span<const StepCell> cells);
  void LearnWork(size_t group);
  void MeasureData();
  void CountSlow(size_t group, GroupRow& row) const;
  void WatchGroups(int64_t step, std::vector<Verdict>& verdicts);
  void WatchRanks(Channel& channel, int64_t step, int64_t row, std::vector<Verdict>& verdicts);
  void TakeChange(Channel& channel, int rank, RankWatch::Change change, int64_t step, int64_t row,
                  std::vector<Verdict>& verdicts);
  void RollUp(NodeState& node, int64_t step, int64_t row, std::vector<Verdict>& verdicts);
  StragglerCause CauseOf(const Channel& channel, int rank) const;
  Verdict MakeVerdict(const Channel& channel, int rank, int64_t step, int64_t row) const;
  bool IsPersistent(int rank) const;

  const DetectorOptions options_;
  const std::vector<DetectorRank> ranks_;
  NodeHistory& history_;
  PeerResiduals peers_;
  RowTimes times_;
  Channel own_;
  Channel data_;
  Imbalance imbalance_;
  WorkExponent work_exponent_;
  std::vector<GroupWatch> groups_;  // In the order of peers_.
  std::vector<NodePast> pasts_;     // By group.
  std::vector<size_t> group_of_;    // By rank.
  std::vector<NodeState> nodes_;
  std::vector<size_t> node_of_;  // By rank.
  std::vector<bool> slow_;       // By rank: slow in any channel.
  std::vector<bool> lasting_;    // By rank: slow, and persistent at some time.
  std::vector<double> forward_;  // By rank: residuals against the whole group.
  std::vector<double> backward_;
  std::vector<double> group_typical_;  // By group.
  std::vector<double> scratch_;        // By group.
  int slow_ranks_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_JOB_WATCH_H_
