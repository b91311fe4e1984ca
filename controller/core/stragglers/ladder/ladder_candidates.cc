#include "controller/core/stragglers/ladder/ladder_candidates.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace paceline {
namespace {

// Limits planning time for jobs whose number of ranks has many divisors.
constexpr size_t kMaxPartitions = 12;

// A way to divide the ranks into groups.
struct Partition {
  LadderScope scope = LadderScope::kSize;
  int size = 0;  // For kSize.
  std::vector<int> groups;
};

// The first rank of each group.
std::vector<int> Starts(const std::vector<int>& groups) {
  std::vector<int> starts;
  int next = 0;
  for (const int size : groups) {
    starts.push_back(next);
    next += size;
  }
  return starts;
}

// Whether each group of `outer` consists of whole groups of `inner`.
bool Holds(const std::vector<int>& outer, const std::vector<int>& inner) {
  const std::vector<int> outer_starts = Starts(outer);
  const std::vector<int> inner_starts = Starts(inner);
  return std::includes(inner_starts.begin(), inner_starts.end(), outer_starts.begin(),
                       outer_starts.end());
}

bool AreNested(const std::vector<int>& a, const std::vector<int>& b) {
  return Holds(a, b) || Holds(b, a);
}

bool AreEqual(const std::vector<int>& groups) {
  return std::all_of(groups.begin(), groups.end(), [&](int size) { return size == groups[0]; });
}

// Partitions wider than the gradient groups and narrower than all ranks, from narrow to wide.
std::vector<Partition> InnerPartitions(const std::vector<RankHome>& homes,
                                       const std::vector<int>& gradient_groups) {
  const int ranks = static_cast<int>(homes.size());
  const std::vector<int> nodes = LadderGroups(LadderScope::kNode, 0, homes);
  const std::vector<int> racks = LadderGroups(LadderScope::kRack, 0, homes);
  const std::vector<int> leaves =
      gradient_groups.empty() ? std::vector<int>(homes.size(), 1) : gradient_groups;
  std::vector<Partition> found;
  for (int size = 2; size < ranks; ++size) {
    if (ranks % size != 0) continue;
    Partition next{LadderScope::kSize, size, LadderGroups(LadderScope::kSize, size, homes)};
    if (AreNested(next.groups, nodes) && AreNested(next.groups, racks)) {
      found.push_back(std::move(next));
    }
  }
  // Equal groups have a size, and are among the partitions by size.
  if (!AreEqual(nodes)) found.push_back({LadderScope::kNode, 0, nodes});
  if (!AreEqual(racks)) found.push_back({LadderScope::kRack, 0, racks});
  found.erase(std::remove_if(found.begin(), found.end(),
                             [&](const Partition& p) {
                               return p.groups.size() <= 1 || p.groups.size() >= leaves.size() ||
                                      !Holds(p.groups, leaves);
                             }),
              found.end());
  std::vector<Partition> kept;
  for (size_t i = 0; i < found.size(); ++i) {
    // Evenly spread, so that successive sizes have about the same ratio.
    const size_t wanted = kept.size() * found.size() / std::min(found.size(), kMaxPartitions);
    if (i >= wanted && kept.size() < kMaxPartitions) kept.push_back(std::move(found[i]));
  }
  return kept;
}

// Whether they come in the order that a job file demands: sizes, nodes, racks.
bool MayFollow(const Partition& wide, const Partition& narrow) {
  return wide.scope >= narrow.scope && wide.groups.size() < narrow.groups.size() &&
         Holds(wide.groups, narrow.groups);
}

class Ladders {
 public:
  Ladders(std::vector<Partition> inner, const CandidateLimits& limits)
      : inner_(std::move(inner)), limits_(limits) {}

  std::vector<Ladder> All() {
    Extend({}, nullptr);
    return std::move(all_);
  }

 private:
  void Extend(const Ladder& ladder, const Partition* last) {
    if (static_cast<int>(ladder.size()) == limits_.max_levels) return;
    const int64_t shortest = ladder.empty() ? 2 : 2 * ladder.back().period;
    for (int64_t period = shortest; period <= limits_.max_period; period *= 2) {
      Ladder complete = ladder;
      complete.push_back({period, LadderScope::kAll, 0});
      all_.push_back(std::move(complete));
      for (const Partition& next : inner_) {
        if (last != nullptr && !MayFollow(next, *last)) continue;
        Ladder longer = ladder;
        longer.push_back({period, next.scope, next.size});
        Extend(longer, &next);
      }
    }
  }

  const std::vector<Partition> inner_;
  const CandidateLimits limits_;
  std::vector<Ladder> all_;
};

}  // namespace

double EquivalentPeriod(const Ladder& ladder, const std::vector<RankHome>& homes,
                        const std::vector<int>& gradient_groups) {
  const auto ranks = static_cast<double>(homes.size());
  // Mean of 1/g over the ranks: the number of groups divided by that of ranks.
  double inner = gradient_groups.empty() ? 1 : static_cast<double>(gradient_groups.size()) / ranks;
  double period = 1;
  for (const LadderLevel& level : ladder) {
    const auto groups = LadderGroups(level.scope, level.size, homes);
    const double outer = std::min(inner, static_cast<double>(groups.size()) / ranks);
    period += (inner - outer) * static_cast<double>(level.period - 1);
    inner = outer;
  }
  return period;
}

std::vector<Ladder> CandidateLadders(const std::vector<RankHome>& homes,
                                     const std::vector<int>& gradient_groups,
                                     const CandidateLimits& limits) {
  if (homes.size() < 2 || gradient_groups.size() == 1) return {};
  return Ladders(InnerPartitions(homes, gradient_groups), limits).All();
}

}  // namespace paceline
