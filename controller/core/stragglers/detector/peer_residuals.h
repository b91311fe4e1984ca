// How far each rank lies from its peers: its value minus the median of those of its peer group on
// other nodes.
//
// The own node is left out, since a slow node of several ranks would move its own reference. Ranks
// that are known to be slow are left out; where too few others remain, the fastest of them are
// taken back, and the residual tells whether its rank is slow, but not what is usual.
//
// Cost per call: one sort of each group.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_PEER_RESIDUALS_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_PEER_RESIDUALS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline {

class PeerResiduals {
 public:
  // Requires: nodes and peer groups >= 0; min_peers > 0.
  PeerResiduals(absl::Span<const DetectorRank> ranks, int min_peers);

  // `values` by rank, NaN: not known. `slow` by rank: known to be slow. Writes by rank the
  // residual, or NaN without a value or with less than min_peers peers.
  void Compute(absl::Span<const double> values, const std::vector<bool>& slow,
               absl::Span<double> residuals);

  // Whether slow ranks were among the peers of the rank in the last Compute.
  bool among_slow(int rank) const { return among_slow_[static_cast<size_t>(rank)]; }

  // Whether the rank has min_peers peers at all.
  bool has_peers(int rank) const { return has_peers_[static_cast<size_t>(rank)]; }

  // Peer groups in use, ascending; below, groups are indices of this list.
  const std::vector<int>& groups() const { return groups_; }
  // Its ranks, those of a node together.
  absl::Span<const int> members(size_t group) const;

  // The median over the group of the values that are known; NaN without any.
  double GroupMedian(size_t group, absl::Span<const double> values);

 private:
  struct NodeSpan {
    size_t begin, end;  // Of members_: the ranks of one node in one group.
  };
  struct Placed {
    double value;
    int rank;
  };

  void Sort(size_t group, absl::Span<const double> values, const std::vector<bool>* left_out);
  // The median of what was sorted without the ranks of the node; NaN with less than min_peers.
  double MedianWithout(const NodeSpan& node);
  // The same of those that are not slow, and as many others as are needed. Requires: all were
  // sorted.
  double MedianAmongSlow(const NodeSpan& node, const std::vector<bool>& slow);

  const int min_peers_;
  std::vector<bool> has_peers_;
  std::vector<bool> among_slow_;
  std::vector<int> groups_;
  std::vector<int> members_;         // By group, node, rank.
  std::vector<size_t> group_begin_;  // Of members_, by group and one past the last.
  std::vector<NodeSpan> nodes_;      // By group.
  std::vector<size_t> group_nodes_;  // Of nodes_, likewise.
  std::vector<Placed> sorted_;       // Scratch.
  std::vector<int> position_;        // By rank: in sorted_, or -1.
  std::vector<int> excluded_;        // Scratch.
  std::vector<double> scratch_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_PEER_RESIDUALS_H_
