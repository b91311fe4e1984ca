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
// third of the shift. So a node is not slow because the others got faster, nor when all move.
//
// And it is slow as a whole, and alone. For each rank, behind = ln(its time / its node's median) is
// compared with the usual one. In most of the latest rows each rank of the node has moved with it
// by half of min_slowdown, of more than eight ranks all but one in eight; and no rank of another
// node has moved away from its node's median by as much. If slow ranks are on several nodes, the
// node with most of them is not to blame.
//
// A time that differs from the usual for 150 rows without a slow node is the new normal. A node
// that was slow in its first rows has no other past, and is not found.
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
  NodePast(const std::vector<std::vector<int>>& ranks, double min_slowdown)
      : min_slowdown_(min_slowdown) {
    if (ranks.size() < 2 || ranks.size() > kMostNodes) return;
    for (const std::vector<int>& of_node : ranks) {
      scratch_.resize(std::max(scratch_.size(), of_node.size()));
      nodes_.push_back(NodeOf(of_node));
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
      return node.slow && std::any_of(node.ranks.begin(), node.ranks.end(),
                                      [rank](const Rank& one) { return one.rank == rank; });
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
  static constexpr int kLatestRows = 8;

  struct Rank {
    int rank = 0;
    double behind = 0;  // In this row, as above. NaN: not known.
    double usual = 0;
    double recent = 0;  // Mean of behind - usual over recent rows.
    // Shares of the latest rows.
    double slow_with_node = 0;
    double slow_alone = 0;
    double away = 0;    // behind was not the usual one.
    int away_rows = 0;  // Successive rows in which it was so in most.
  };

  struct Node {
    std::vector<Rank> ranks;
    double typical = 0;  // In this row.
    double usual = 0;
    double own = 0;         // In this row, as above,
    double recent = 0;      // and its mean over recent rows.
    double shift = 0;       // In the row before, until Compare.
    double difference = 0;  // Mean |shift - the shift before|,
    double spread = 0;      // and mean |shift|.
    double evidence = 0;
    int evidence_rows = 0;
    double mean_shift = 0;   // Mean since the evidence left 0,
    double mean_others = 0;  // mostly of recent rows.
    bool slow = false;
  };

  static Node NodeOf(const std::vector<int>& ranks) {
    Node node;
    for (const int rank : ranks) node.ranks.emplace_back().rank = rank;
    return node;
  }

  bool SetTypical(absl::Span<const double> values) {
    for (Node& node : nodes_) {
      size_t count = 0;
      for (const Rank& one : node.ranks) {
        const double value = values[static_cast<size_t>(one.rank)];
        if (!std::isnan(value)) scratch_[count++] = value;
      }
      if (count == 0) return false;
      node.typical = MedianOf(absl::MakeSpan(scratch_).subspan(0, count));
      for (Rank& one : node.ranks) {
        one.behind = values[static_cast<size_t>(one.rank)] - node.typical;
      }
    }
    return true;
  }

  void Begin() {
    for (Node& node : nodes_) {
      if (rows_ == 1) node.usual = node.recent = node.shift = node.difference = node.spread = 0;
      if (rows_ > 1) {
        node.difference +=
            (std::abs(node.typical - node.own) - node.difference) / static_cast<double>(rows_ - 1);
      }
      node.own = node.typical;  // That of the row before, until something is usual.
      node.usual += (node.typical - node.usual) / static_cast<double>(rows_);
      node.spread = kSigmaPerDifference * node.difference / kSigmaPerSpread;
      Forget(node);
      for (Rank& one : node.ranks) {
        if (rows_ == 1) one = Rank{one.rank, one.behind};
        if (!std::isnan(one.behind)) {
          one.usual += (one.behind - one.usual) / static_cast<double>(rows_);
        }
      }
    }
    away_ = 0;
  }

  static void Forget(Node& node) {
    node.evidence = node.mean_shift = node.mean_others = 0;
    node.evidence_rows = 0;
    node.slow = false;
  }

  void Compare(Node& node) {
    size_t count = 0;
    for (const Node& other : nodes_) {
      if (&other != &node) others_[count++] = other.own;
    }
    const double others = MedianOf(absl::MakeSpan(others_).subspan(0, count));
    const double shift = node.own - others;
    for (Rank& one : node.ranks) Follow(one, shift);
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
    const double moved = std::abs(node.mean_others);
    if (node.slow) {
      node.slow = node.mean_shift >= min_slowdown_ / 2 && moved <= node.mean_shift / 2;
    } else {
      node.slow = node.evidence > kEvidence && node.mean_shift >= kSlowShare * min_slowdown_ &&
                  moved <= node.mean_shift / 3 && node.evidence_rows >= kLatestRows &&
                  IsSlowAsAWhole(node) && IsSlowAlone(node);
    }
  }

  // `shift`: of its node.
  void Follow(Rank& one, double shift) {
    if (std::isnan(one.behind)) return;
    const double half = min_slowdown_ / 2;
    const double moved = one.behind - one.usual;
    const auto count = [](bool is_so, double& share) {
      share += ((is_so ? 1 : 0) - share) / kLatestRows;
    };
    count(shift + moved > half, one.slow_with_node);
    count(moved > half, one.slow_alone);
    count(std::abs(moved) > half, one.away);
    one.recent += (moved - one.recent) / kMeanRows;
  }

  static bool IsSlowAsAWhole(const Node& node) {
    const auto others = std::count_if(node.ranks.begin(), node.ranks.end(),
                                      [](const Rank& one) { return one.slow_with_node < 0.5; });
    return others <= static_cast<std::ptrdiff_t>((node.ranks.size() - 1) / 8);
  }

  bool IsSlowAlone(const Node& node) const {
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const Node& other) {
      return &other == &node || std::all_of(other.ranks.begin(), other.ranks.end(),
                                            [](const Rank& one) { return one.slow_alone < 0.5; });
    });
  }

  // What has been so for long is usual. Not while a node is in doubt: what its ranks differ by is
  // what is asked then.
  void LearnRank(Rank& one, double cut) {
    if (std::isnan(one.behind)) return;
    one.away_rows = one.away >= 0.5 ? one.away_rows + 1 : 0;
    if (one.away_rows >= kNewNormal) {
      one.usual += std::exchange(one.recent, 0);
      one.away_rows = 0;
    }
    one.usual += kUsualRate * std::clamp(one.behind - one.usual, -cut, cut);
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
        for (Rank& one : node.ranks) LearnRank(one, cut);
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
