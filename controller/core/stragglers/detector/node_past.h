// Whether a node of a peer group has become slower than it was, and the others have not changed.
//
// If a group lies on two or three nodes, a slow node is a large part of it. The peers are then no
// majority, and a difference does not show which of them has changed. Their own past does. For each
// node and row, the median of its ranks' times is compared with the usual one:
//
//   own     ln(median / usual): how far the node has moved
//   others  the median of `own` of the other nodes
//   shift   own - others, which leaves out what the whole job shares, such as longer sequences
//
// Evidence is a CUSUM of the shift, as in rank_watch.h. With enough evidence a node is slow if its
// mean shift is at least three quarters of min_slowdown, and the others have moved by less than a
// third of the shift. So a node is not slow because the others got faster, nor when all move. And
// it is slow as a whole, and alone: its fastest rank has moved by half of the shift, and the
// slowest rank of the others has not. If slow ranks are on several nodes, the node with most of
// them is not to blame. Of more than eight ranks, one in eight may differ. A time that differs from
// the usual for 150 rows without a slow node is the new normal. A node that was slow in its first
// rows has no other past, and is not found.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_NODE_PAST_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_NODE_PAST_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline {

class NodePast {
 public:
  // The ranks of one peer group, by node. On one node, or more than three, no node is ever slow.
  NodePast(std::vector<std::vector<int>> ranks, double min_slowdown) : min_slowdown_(min_slowdown) {
    if (ranks.size() < 2 || ranks.size() > kMostNodes) return;
    for (std::vector<int>& of_node : ranks) {
      scratch_.resize(std::max(scratch_.size(), of_node.size()));
      nodes_.push_back({std::move(of_node)});
    }
    others_.resize(nodes_.size());
  }

  // Takes in a row of values in ln by rank; NaN: not known. A row without a node is left out. A
  // change of `quantity` means that the values measure something else.
  void Update(absl::Span<const double> values, int quantity) {
    if (nodes_.empty() || !SetTypical(values)) return;
    if (quantity != quantity_) rows_ = 0;
    quantity_ = quantity;
    if (rows_++ < kFirstRows) return Begin();
    for (Node& node : nodes_) node.own = node.typical - node.usual;
    for (Node& node : nodes_) Compare(node);
    Learn();
  }

  // Whether the rank's node is slow. Requires: a rank of the group.
  bool IsSlow(int rank) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [rank](const Node& node) {
      return node.slow && std::find(node.ranks.begin(), node.ranks.end(), rank) != node.ranks.end();
    });
  }
  bool any_slow() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.slow; });
  }
  // Whether nodes seem to have moved apart, so that differences between ranks are no noise.
  bool in_doubt() const {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [](const Node& node) { return node.evidence > kDoubt; });
  }

 private:
  static constexpr size_t kMostNodes = 3;
  static constexpr int64_t kFirstRows = 20;
  static constexpr int kNewNormal = 150;
  static constexpr double kEvidence = 20;  // As for a rank.
  static constexpr double kDoubt = kEvidence / 4;
  static constexpr double kClip = kEvidence / 2.9;  // 3 rows: the median hides a rank's pause.
  static constexpr double kClipAgainst = kEvidence / 2;
  static constexpr double kSlowShare = 0.75;  // Of min_slowdown, as for a persistent rank.
  static constexpr double kUsualRate = 0.02;
  static constexpr double kDifferenceRate = 0.05;
  static constexpr double kSigmaPerDifference = 0.886;
  static constexpr double kSpreadRate = 0.01;
  static constexpr double kSigmaPerSpread = 1.2533;
  static constexpr double kLeastSigma = 0.003;
  static constexpr double kLeastNew = 0.05;
  static constexpr int kMeanRows = 32;

  struct Node {
    std::vector<int> ranks;
    double typical = 0;  // In this row.
    double usual = 0;
    double fastest = 0;  // Its fastest rank's time in this row, less the median,
    double usual_fastest = 0;
    double slowest = 0;  // and its slowest rank's.
    double usual_slowest = 0;
    double own = 0;         // In this row, as above,
    double recent = 0;      // and its mean over recent rows.
    double shift = 0;       // In the row before, until Compare.
    double difference = 0;  // Mean |shift - the shift before|,
    double spread = 0;      // and mean |shift|.
    double evidence = 0;
    int evidence_rows = 0;
    double mean_shift = 0;    // Mean since the evidence left 0,
    double mean_others = 0;   // mostly of recent rows;
    double mean_fastest = 0;  // of how far its fastest rank has moved, and the others' slowest one.
    double mean_slowest = 0;
    bool slow = false;
  };

  bool SetTypical(absl::Span<const double> values) {
    for (Node& node : nodes_) {
      size_t count = 0;
      for (const int rank : node.ranks) {
        const double value = values[static_cast<size_t>(rank)];
        if (!std::isnan(value)) scratch_[count++] = value;
      }
      if (count == 0) return false;
      const absl::Span<double> times = absl::MakeSpan(scratch_).subspan(0, count);
      node.typical = MedianOf(times);
      std::sort(times.begin(), times.end());
      const size_t left_out = (count - 1) / 8;
      node.fastest = times[left_out] - node.typical;
      node.slowest = times[count - 1 - left_out] - node.typical;
    }
    return true;
  }

  void Begin() {
    for (Node& node : nodes_) {
      if (rows_ == 1) {
        node.usual = node.recent = node.shift = node.difference = node.spread = 0;
        node.usual_fastest = node.usual_slowest = 0;
      }
      if (rows_ > 1) {
        node.difference +=
            (std::abs(node.typical - node.own) - node.difference) / static_cast<double>(rows_ - 1);
      }
      node.own = node.typical;  // That of the row before, until something is usual.
      const auto rows = static_cast<double>(rows_);
      node.usual += (node.typical - node.usual) / rows;
      node.usual_fastest += (node.fastest - node.usual_fastest) / rows;
      node.usual_slowest += (node.slowest - node.usual_slowest) / rows;
      node.spread = kSigmaPerDifference * node.difference / kSigmaPerSpread;
      Forget(node);
    }
    away_ = 0;
  }

  static void Forget(Node& node) {
    node.evidence = node.mean_shift = node.mean_others = 0;
    node.mean_fastest = node.mean_slowest = 0;
    node.evidence_rows = 0;
    node.slow = false;
  }

  void Compare(Node& node) {
    size_t count = 0;
    double slowest = 0;  // Of the others.
    for (const Node& other : nodes_) {
      if (&other == &node) continue;
      others_[count++] = other.own;
      slowest = std::max(slowest, other.own + other.slowest - other.usual_slowest);
    }
    const double others = MedianOf(absl::MakeSpan(others_).subspan(0, count));
    const double shift = node.own - others;
    const double difference = std::abs(shift - node.shift);
    node.shift = shift;
    node.recent += (node.own - node.recent) / kMeanRows;
    node.difference +=
        kDifferenceRate *
        (std::min(difference, 3 * std::max(node.difference, kLeastSigma)) - node.difference);
    if (!node.slow) {
      node.spread +=
          kSpreadRate *
          (std::min(std::abs(shift), 3 * std::max(node.spread, kLeastSigma)) - node.spread);
    }
    const double ratio = min_slowdown_ / Variance(node) * (shift - min_slowdown_ / 2);
    node.evidence =
        std::min(node.evidence + std::clamp(ratio, -kClipAgainst, kClip), kEvidence + kClip);
    if (node.evidence <= 0) return Forget(node);
    const double rate = 1.0 / std::min(++node.evidence_rows, kMeanRows);
    node.mean_shift += rate * (shift - node.mean_shift);
    node.mean_others += rate * (others - node.mean_others);
    // Within limits, so that a pause counts for little.
    const double fastest = node.own + node.fastest - node.usual_fastest;
    node.mean_fastest +=
        rate * (std::clamp(fastest, -min_slowdown_, min_slowdown_) - node.mean_fastest);
    node.mean_slowest += rate * (std::min(slowest, min_slowdown_) - node.mean_slowest);
    const double moved = std::abs(node.mean_others);
    if (node.slow) {
      node.slow = node.mean_shift >= min_slowdown_ / 2 && moved <= node.mean_shift / 2;
    } else {
      const double half = std::min(node.mean_shift, min_slowdown_) / 2;
      node.slow = node.evidence > kEvidence && node.mean_shift >= kSlowShare * min_slowdown_ &&
                  moved <= node.mean_shift / 3 && node.mean_fastest >= half &&
                  node.mean_slowest <= half;
    }
  }

  // The variance of the mean of n shifts, times n. Successive rows are alike, as in AR(1) noise;
  // how much less they differ than independent rows would shows rho.
  static double Variance(const Node& node) {
    const double sigma = std::max(
        {kSigmaPerSpread * node.spread, kSigmaPerDifference * node.difference, kLeastSigma});
    const double apart = node.difference * kSigmaPerDifference / sigma;
    const double new_share = std::clamp(apart * apart, kLeastNew, 1.0);  // 1 - rho
    return sigma * sigma * (2 - new_share) / new_share;
  }

  void Learn() {
    if (any_slow()) {
      away_ = 0;
      return;
    }
    const bool away = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
      return std::abs(node.recent) > min_slowdown_ / 2;
    });
    away_ = away ? away_ + 1 : 0;
    for (Node& node : nodes_) {
      if (away_ >= kNewNormal) {
        node.usual += node.recent;
        node.recent = 0;
        Forget(node);
      } else if (!in_doubt()) {
        const double cut = std::max(3 * kSigmaPerDifference * node.difference, 0.01);
        node.usual += kUsualRate * std::clamp(node.own, -cut, cut);
        node.usual_fastest += kUsualRate * std::clamp(node.fastest - node.usual_fastest, -cut, cut);
        node.usual_slowest += kUsualRate * std::clamp(node.slowest - node.usual_slowest, -cut, cut);
      }
    }
    if (away_ >= kNewNormal) away_ = 0;
  }

  const double min_slowdown_;
  std::vector<Node> nodes_;
  std::vector<double> scratch_;
  std::vector<double> others_;
  int quantity_ = 0;
  int64_t rows_ = 0;
  int away_ = 0;  // Successive rows in which a node was off its usual time.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_NODE_PAST_H_
