// How far each rank is from its peers: its value minus the median value of the ranks of its peer
// group that are on other nodes.
//
// A rank's own node is left out, since a slow node of several ranks would move its own reference.
// Ranks known to be slow are left out, too. If too few peers remain, the fastest slow ones are
// taken back; the residual then shows whether its rank is slow, but not what is usual.
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

  // `values` by rank; NaN: not known. `slow` by rank: whether it is known to be slow. Writes
  // residuals by rank; NaN: the rank has no value, or fewer than min_peers peers.
  void Compute(absl::Span<const double> values, const std::vector<bool>& slow,
               absl::Span<double> residuals);

  // Whether slow ranks were among the rank's peers in the last Compute.
  bool among_slow(int rank) const { return among_slow_[static_cast<size_t>(rank)]; }

  // Whether the rank has min_peers peers at all.
  bool has_peers(int rank) const { return has_peers_[static_cast<size_t>(rank)]; }

  // The peer groups in use, ascending. Elsewhere a group is an index into this list.
  const std::vector<int>& groups() const { return groups_; }
  // The group's ranks, those of a node together.
  absl::Span<const int> members(size_t group) const;

  // The median of the group's known values; NaN: none is known.
  double GroupMedian(size_t group, absl::Span<const double> values);

 private:
  struct NodeSpan {
    size_t begin, end;  // The range in members_ of one node's ranks in one group.
  };
  struct Placed {
    double value;
    int rank;
  };

  void Sort(size_t group, absl::Span<const double> values, const std::vector<bool>* left_out);
  // The median of the sorted values without the node's ranks; NaN: fewer than min_peers are left.
  double MedianWithout(const NodeSpan& node);
  // The same over those that are not slow and as many slow ones as are needed. Requires: the slow
  // ones were sorted, too.
  double MedianAmongSlow(const NodeSpan& node, const std::vector<bool>& slow);

  const int min_peers_;
  std::vector<bool> has_peers_;
  std::vector<bool> among_slow_;
  std::vector<int> groups_;
  std::vector<int> members_;         // By group, node, rank.
  std::vector<size_t> group_begin_;  // Index in members_, by group and one past the last.
  std::vector<NodeSpan> nodes_;      // By group.
  std::vector<size_t> group_nodes_;  // Likewise in nodes_.
  std::vector<Placed> sorted_;       // Scratch.
  std::vector<int> position_;        // By rank: index in sorted_, or -1.
  std::vector<int> excluded_;        // Scratch.
  std::vector<double> scratch_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_PEER_RESIDUALS_H_
