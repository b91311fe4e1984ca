#include "worker/trainer/core/rendezvous.h"

#include <algorithm>
#include <tuple>

namespace paceline {
namespace {

using What = Transfer::What;

// Each rule sees the positions that the rules before it have left.
struct Rendezvous {
  std::vector<RankPosition>& ranks;
  std::vector<Transfer>& transfers;

  int size() const { return static_cast<int>(ranks.size()); }
  RankPosition& at(int rank) const { return ranks[static_cast<size_t>(rank)]; }

  bool Trained(int rank) const { return at(rank).generation > 0; }
  // Orders ranks by how advanced they are.
  std::tuple<bool, int64_t, bool, bool> Progress(int rank) const {
    const RankPosition& one = at(rank);
    return {Trained(rank), one.step, one.exchanged, one.final_mean};
  }

  void TakeSteps(const std::vector<RankPosition>& reported) const;
  void GoBack() const;
  void TakeMeans(const std::vector<RankPosition>& reported) const;
  bool IsLeftBehind(int rank, const std::vector<std::vector<int>>& groups) const;
  // `left_behind` is indexed by rank.
  void TakeAll(const std::vector<std::vector<int>>& groups,
               const std::vector<bool>& left_behind) const;
};

// Rule 1. The source is exactly one step ahead: for another step it would need this rank's
// gradients. Only ranks that did the step themselves qualify, since they have all of it.
void Rendezvous::TakeSteps(const std::vector<RankPosition>& reported) const {
  for (int to = 0; to < size(); ++to) {
    RankPosition& behind = at(to);
    if (!behind.computed) continue;
    for (int from = 0; from < size(); ++from) {
      const RankPosition& ahead = reported[static_cast<size_t>(from)];
      if (ahead.generation != behind.generation || !behind.gradients.Holds(ahead.rank) ||
          ahead.step <= behind.step) {
        continue;
      }
      transfers.push_back({What::kStep, from, to});
      behind.step = ahead.step;
      behind.exchanged = ahead.exchanged;
      behind.exchange = ahead.exchange;
      behind.computed = false;
      break;
    }
  }
}

// Rule 2.
void Rendezvous::GoBack() const {
  for (RankPosition& one : ranks) one.computed = false;
}

// Rule 3. Only a rank that completed the exchange itself has the mean.
void Rendezvous::TakeMeans(const std::vector<RankPosition>& reported) const {
  const auto is_through = [&](const RankPosition& cut, const RankPosition& other) {
    if (other.generation != cut.generation) return false;
    if (cut.exchanged) return other.final_mean && !cut.final_mean && other.step == cut.step;
    return cut.exchange.Holds(other.rank) &&
           (other.step > cut.step || (other.step == cut.step && other.exchanged));
  };
  for (int to = 0; to < size(); ++to) {
    RankPosition& cut = at(to);
    if (cut.generation == 0) continue;
    for (int from = 0; from < size(); ++from) {
      const RankPosition& other = reported[static_cast<size_t>(from)];
      if (!is_through(cut, other)) continue;
      transfers.push_back({What::kMean, from, to});
      cut.exchanged = true;
      cut.final_mean = other.final_mean && other.step == cut.step;
      break;
    }
  }
}

std::vector<RankRange> GroupsHolding(int rank, const std::vector<std::vector<int>>& groups,
                                     int ranks) {
  std::vector<RankRange> holding;
  for (const std::vector<int>& sizes : groups) {
    int first = 0;
    for (const int size : sizes) {
      if (RankRange{first, size}.Holds(rank)) holding.push_back({first, size});
      first += size;
    }
  }
  std::stable_sort(holding.begin(), holding.end(),
                   [](const RankRange& a, const RankRange& b) { return a.size < b.size; });
  holding.push_back({0, ranks});
  return holding;
}

// For rule 4. The smallest group that has another trained rank decides.
bool Rendezvous::IsLeftBehind(int rank, const std::vector<std::vector<int>>& groups) const {
  if (!Trained(rank)) return false;
  for (const RankRange& group : GroupsHolding(rank, groups, size())) {
    bool knows = false;
    for (int other = group.first; other < group.first + group.size; ++other) {
      if (other == rank || !Trained(other)) continue;
      knows = true;
      if (at(other).generation > at(rank).generation && Progress(other) > Progress(rank)) {
        return true;
      }
    }
    if (knows) return false;
  }
  return false;
}

// Rule 4.
void Rendezvous::TakeAll(const std::vector<std::vector<int>>& groups,
                         const std::vector<bool>& left_behind) const {
  std::tuple<bool, int64_t, bool, bool> furthest = Progress(0);
  for (int rank = 0; rank < size(); ++rank) furthest = std::max(furthest, Progress(rank));
  const bool begins = !std::get<0>(furthest);
  const auto has_state = [&](int rank) {
    if (begins) return at(rank).step == std::get<1>(furthest);
    return Trained(rank) && !left_behind[static_cast<size_t>(rank)];
  };
  std::vector<Transfer> added;
  for (int to = 0; to < size(); ++to) {
    if (has_state(to)) continue;
    for (const RankRange& group : GroupsHolding(to, groups, size())) {
      std::vector<int> sources;
      for (int from = group.first; from < group.first + group.size; ++from) {
        if (!has_state(from)) continue;
        if (!sources.empty() && Progress(from) > Progress(sources.front())) sources.clear();
        if (sources.empty() || Progress(from) == Progress(sources.front())) {
          sources.push_back(from);
        }
      }
      if (sources.empty()) continue;
      // Without groups of parameters, all ranks at the same step are alike: spread the sources.
      const size_t chosen = groups.empty() ? added.size() % sources.size() : 0;
      added.push_back({What::kAll, sources[chosen], to});
      break;
    }
  }
  for (const Transfer& transfer : added) at(transfer.to) = at(transfer.from);
  transfers.insert(transfers.end(), added.begin(), added.end());
}

// Repeats an evaluation that only some ranks have finished, unless a rank has trained on.
void SettleEvaluations(std::vector<RankPosition>& ranks) {
  std::vector<int64_t> settled;
  for (const RankPosition& one : ranks) {
    const bool passed = std::any_of(ranks.begin(), ranks.end(), [&](const RankPosition& other) {
      return other.evaluated >= one.step && other.step > one.step;
    });
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&](const RankPosition& other) {
      return other.step != one.step || other.evaluated == one.step;
    });
    const bool unfinished = one.evaluated == one.step && !all;
    settled.push_back(passed ? one.step : unfinished ? -1 : one.evaluated);
  }
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].evaluated = settled[i];
}

}  // namespace

RendezvousDecision DecideRendezvous(const std::vector<RankPosition>& reported,
                                    const std::vector<uint64_t>& layouts,
                                    const std::vector<std::vector<int>>& groups) {
  RendezvousDecision decision;
  decision.positions = reported;
  const Rendezvous rendezvous{decision.positions, decision.transfers};
  rendezvous.TakeSteps(reported);
  rendezvous.GoBack();
  rendezvous.TakeMeans(reported);
  bool& same = decision.same_groups;
  bool trained = false;
  std::vector<bool> left_behind;
  for (size_t rank = 0; rank < reported.size(); ++rank) {
    left_behind.push_back(rendezvous.IsLeftBehind(static_cast<int>(rank), groups));
    if (reported[rank].generation == 0 || left_behind.back()) continue;
    trained = true;
    same = same && reported[rank].layout == layouts[rank];
  }
  rendezvous.TakeAll(groups, left_behind);
  decision.begins = !trained && decision.transfers.empty();
  SettleEvaluations(decision.positions);
  // Rule 5.
  for (RankPosition& one : decision.positions) {
    decision.alone_below = std::max(decision.alone_below, one.alone_below);
    if (same) continue;
    one.exchanged = true;
    decision.alone_below = std::max(decision.alone_below, one.step);
  }
  for (RankPosition& one : decision.positions) one.alone_below = decision.alone_below;
  return decision;
}

}  // namespace paceline
