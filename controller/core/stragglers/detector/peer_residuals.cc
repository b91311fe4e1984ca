#include "controller/core/stragglers/detector/peer_residuals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "controller/core/stragglers/detector/median.h"

namespace paceline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

PeerResiduals::PeerResiduals(absl::Span<const DetectorRank> ranks, int min_peers)
    : min_peers_(min_peers),
      has_peers_(ranks.size()),
      among_slow_(ranks.size()),
      members_(ranks.size()),
      sorted_(ranks.size()),
      position_(ranks.size(), -1),
      excluded_(ranks.size()),
      scratch_(ranks.size()) {
  std::iota(members_.begin(), members_.end(), 0);
  const auto key = [&](int rank) {
    const DetectorRank& r = ranks[static_cast<size_t>(rank)];
    return std::make_tuple(r.peer_group, r.node, rank);
  };
  std::sort(members_.begin(), members_.end(), [&](int a, int b) { return key(a) < key(b); });
  for (size_t i = 0; i < members_.size(); ++i) {
    const DetectorRank& rank = ranks[static_cast<size_t>(members_[i])];
    const bool new_group = groups_.empty() || groups_.back() != rank.peer_group;
    if (new_group) {
      groups_.push_back(rank.peer_group);
      group_begin_.push_back(i);
      group_nodes_.push_back(nodes_.size());
    }
    if (new_group || ranks[static_cast<size_t>(members_[i - 1])].node != rank.node) {
      nodes_.push_back({i, i});
    }
    nodes_.back().end = i + 1;
  }
  group_begin_.push_back(members_.size());
  group_nodes_.push_back(nodes_.size());
  for (size_t group = 0; group < groups_.size(); ++group) {
    const size_t all = members(group).size();
    for (size_t n = group_nodes_[group]; n < group_nodes_[group + 1]; ++n) {
      const NodeSpan& node = nodes_[n];
      for (size_t i = node.begin; i < node.end; ++i) {
        has_peers_[static_cast<size_t>(members_[i])] =
            all - (node.end - node.begin) >= static_cast<size_t>(min_peers_);
      }
    }
  }
}

absl::Span<const int> PeerResiduals::members(size_t group) const {
  return absl::MakeConstSpan(members_).subspan(group_begin_[group],
                                               group_begin_[group + 1] - group_begin_[group]);
}

void PeerResiduals::Compute(absl::Span<const double> values, const std::vector<bool>& slow,
                            absl::Span<double> residuals) {
  std::fill(residuals.begin(), residuals.end(), kNone);
  std::fill(among_slow_.begin(), among_slow_.end(), false);
  for (size_t group = 0; group < groups_.size(); ++group) {
    Sort(group, values, &slow);
    bool too_few = false;
    const auto subtract = [&](const NodeSpan& node, double median) {
      for (size_t i = node.begin; i < node.end; ++i) {
        const auto rank = static_cast<size_t>(members_[i]);
        residuals[rank] = values[rank] - median;
      }
      return !std::isnan(median);
    };
    for (size_t n = group_nodes_[group]; n < group_nodes_[group + 1]; ++n) {
      too_few = !subtract(nodes_[n], MedianWithout(nodes_[n])) || too_few;
    }
    if (!too_few) continue;
    Sort(group, values, nullptr);
    for (size_t n = group_nodes_[group]; n < group_nodes_[group + 1]; ++n) {
      const NodeSpan& node = nodes_[n];
      const bool none =
          std::all_of(members_.begin() + static_cast<ptrdiff_t>(node.begin),
                      members_.begin() + static_cast<ptrdiff_t>(node.end),
                      [&](int rank) { return std::isnan(residuals[static_cast<size_t>(rank)]); });
      if (!none) continue;
      subtract(node, MedianAmongSlow(node, slow));
      for (size_t i = node.begin; i < node.end; ++i) {
        among_slow_[static_cast<size_t>(members_[i])] = true;
      }
    }
  }
}

double PeerResiduals::GroupMedian(size_t group, absl::Span<const double> values) {
  size_t count = 0;
  for (const int rank : members(group)) {
    const double value = values[static_cast<size_t>(rank)];
    if (!std::isnan(value)) scratch_[count++] = value;
  }
  return count == 0 ? kNone : MedianOf(absl::MakeSpan(scratch_).subspan(0, count));
}

void PeerResiduals::Sort(size_t group, absl::Span<const double> values,
                         const std::vector<bool>* left_out) {
  sorted_.clear();
  for (const int rank : members(group)) {
    const auto r = static_cast<size_t>(rank);
    position_[r] = -1;
    if (std::isnan(values[r]) || (left_out != nullptr && (*left_out)[r])) continue;
    sorted_.push_back({values[r], rank});
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [](const Placed& a, const Placed& b) { return a.value < b.value; });
  for (size_t i = 0; i < sorted_.size(); ++i) {
    position_[static_cast<size_t>(sorted_[i].rank)] = static_cast<int>(i);
  }
}

double PeerResiduals::MedianWithout(const NodeSpan& node) {
  excluded_.clear();
  for (size_t i = node.begin; i < node.end; ++i) {
    const int position = position_[static_cast<size_t>(members_[i])];
    if (position >= 0) excluded_.push_back(position);
  }
  std::sort(excluded_.begin(), excluded_.end());
  const int remaining = static_cast<int>(sorted_.size() - excluded_.size());
  if (remaining < min_peers_) return kNone;
  const auto nth = [&](int n) {
    for (const int position : excluded_) {
      if (position > n) break;
      ++n;
    }
    return sorted_[static_cast<size_t>(n)].value;
  };
  const double upper = nth(remaining / 2);
  return remaining % 2 == 1 ? upper : (upper + nth(remaining / 2 - 1)) / 2;
}

double PeerResiduals::MedianAmongSlow(const NodeSpan& node, const std::vector<bool>& slow) {
  const auto begin = members_.begin() + static_cast<ptrdiff_t>(node.begin);
  const auto end = members_.begin() + static_cast<ptrdiff_t>(node.end);
  size_t count = 0;
  for (const bool of_slow : {false, true}) {
    for (const Placed& placed : sorted_) {
      if (of_slow && count == static_cast<size_t>(min_peers_)) break;
      if (slow[static_cast<size_t>(placed.rank)] != of_slow) continue;
      if (!std::binary_search(begin, end, placed.rank)) scratch_[count++] = placed.value;
    }
  }
  if (count < static_cast<size_t>(min_peers_)) return kNone;
  return MedianOf(absl::MakeSpan(scratch_).subspan(0, count));
}

}  // namespace paceline
