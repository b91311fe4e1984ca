#include "bench/stragglers/fault.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace paceline::detect {
namespace {

constexpr int kAttempts = 1000;

std::vector<int> Sequence(int begin, int end) {
  std::vector<int> numbers(static_cast<size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

// Draws `count` of the numbers; ascending.
std::vector<int> Sample(std::vector<int> numbers, int count, Random& random) {
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::swap(numbers[i],
              numbers[i + static_cast<size_t>(random.Below(static_cast<int>(numbers.size() - i)))]);
  }
  numbers.resize(static_cast<size_t>(count));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The stage of the ranks; -1: several stages.
int StageOf(const std::vector<int>& ranks, const HistorySpec& spec) {
  const int of_stage = spec.ranks / spec.stages;
  const int stage = ranks.front() / of_stage;
  return ranks.back() / of_stage == stage ? stage : -1;
}

Fault OfSpec(const HistorySpec& spec, double onset) {
  Fault fault;
  fault.scope = spec.scope;
  fault.shape = spec.shape;
  fault.cause = spec.cause;
  fault.factor = spec.factor;
  fault.begin = static_cast<int64_t>(onset * spec.steps);
  fault.lasting = spec.shape != Shape::kOneOff;
  fault.end = fault.lasting ? spec.steps : fault.begin + 1;
  fault.ramp = spec.ramp;
  fault.on = spec.on;
  fault.off = spec.off;
  return fault;
}

// How many of each stage's ranks are among these.
std::vector<int> CountByStage(const std::vector<int>& ranks, const HistorySpec& spec) {
  std::vector<int> counts(static_cast<size_t>(spec.stages));
  for (const int rank : ranks) ++counts[static_cast<size_t>(rank / (spec.ranks / spec.stages))];
  return counts;
}

// Whether these are more than a quarter of a stage's ranks: then they cannot be told from their
// peers, and something else is to blame.
bool AreMany(const std::vector<int>& counts, const HistorySpec& spec) {
  return 4 * *std::max_element(counts.begin(), counts.end()) > spec.ranks / spec.stages;
}

// Adds a fault's ranks to the permanently slow ones. False: there would be too many of them.
bool AddSlow(const std::vector<int>& counts, const HistorySpec& spec, std::vector<int>& slow) {
  for (size_t stage = 0; stage < slow.size(); ++stage) {
    const bool first = counts[stage] == 0 || slow[stage] == 0;
    if (!first && 4 * (slow[stage] + counts[stage]) > spec.ranks / spec.stages) return false;
  }
  for (size_t stage = 0; stage < slow.size(); ++stage) slow[stage] += counts[stage];
  return true;
}

// The rank, and as many others of its node and stage as the spec says.
std::vector<int> WithNeighbours(int rank, const HistorySpec& spec, Random& random) {
  const int of_stage = spec.ranks / spec.stages;
  const int node = rank / spec.ranks_per_node;
  std::vector<int> others;
  for (int r = node * spec.ranks_per_node; r < (node + 1) * spec.ranks_per_node; ++r) {
    if (r < spec.ranks && r != rank && r / of_stage == rank / of_stage) others.push_back(r);
  }
  const int count = std::min(spec.fault_ranks - 1, static_cast<int>(others.size()));
  std::vector<int> ranks = Sample(std::move(others), count, random);
  ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), rank), rank);
  return ranks;
}

std::vector<Fault> LastingFaults(const HistorySpec& spec, Random& random) {
  std::vector<Fault> faults;
  const int of_stage = spec.ranks / spec.stages;
  const double onset_of_all = random.Between(spec.onset.low, spec.onset.high);
  const int first_stage = random.Below(spec.stages);
  std::set<int> nodes_taken;
  std::vector<int> slow(static_cast<size_t>(spec.stages));  // Ranks, by stage.
  for (int i = 0; i < spec.faults; ++i) {
    const double onset = random.Between(spec.onset.low, spec.onset.high);
    Fault fault = OfSpec(spec, spec.together ? onset_of_all : onset);
    fault.stage = (first_stage + (spec.together ? 0 : i)) % spec.stages;
    const std::vector<int> stage = Sequence(fault.stage * of_stage, (fault.stage + 1) * of_stage);
    if (fault.of_few()) {
      int rank = -1;
      for (int attempt = 0; rank < 0 && attempt < kAttempts; ++attempt) {
        const int drawn = stage[static_cast<size_t>(random.Below(of_stage))];
        if (nodes_taken.insert(drawn / spec.ranks_per_node).second) rank = drawn;
      }
      if (rank < 0) continue;  // All nodes are taken.
      const int node = rank / spec.ranks_per_node * spec.ranks_per_node;
      fault.ranks = spec.scope == Scope::kRank
                        ? WithNeighbours(rank, spec, random)
                        : Sequence(node, std::min(spec.ranks, node + spec.ranks_per_node));
      fault.stage = StageOf(fault.ranks, spec);
      const std::vector<int> counts = CountByStage(fault.ranks, spec);
      if (fault.lasting && !AddSlow(counts, spec, slow)) continue;
      if (fault.ranks.size() > 1 && AreMany(counts, spec)) fault.scope = Scope::kGroup;
    } else if (spec.scope == Scope::kGroup) {
      fault.ranks = Sample(stage, static_cast<int>(std::lround(spec.share * of_stage)), random);
    } else if (spec.scope == Scope::kStage) {
      fault.ranks = stage;
    } else {
      fault.ranks = Sequence(0, spec.ranks);
      fault.stage = spec.stages == 1 ? 0 : -1;
    }
    faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace

bool Fault::Covers(int rank) const { return std::binary_search(ranks.begin(), ranks.end(), rank); }

double Fault::FactorAt(int64_t step) const {
  if (step < begin || step >= end) return 1;
  const int64_t since = step - begin;
  if (shape == Shape::kRamp && since < ramp) {
    return 1 + (factor - 1) * static_cast<double>(since + 1) / ramp;
  }
  if (shape == Shape::kIntermittent && since % (on + off) >= on) return 1;
  return factor;
}

double Fault::SlowdownOf(int rank) const {
  const auto of_rank = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
  const double without = usual.empty() ? 1 : usual[static_cast<size_t>(of_rank)];
  return cause == FaultCause::kData ? 1 + (factor - 1) * without : factor * without;
}

std::vector<Fault> DrawFaults(const HistorySpec& spec, Random& random) {
  std::vector<Fault> faults = LastingFaults(spec, random);
  std::set<int> taken;
  for (const Fault& fault : faults) {
    if (fault.of_few()) taken.insert(fault.ranks.begin(), fault.ranks.end());
  }
  const int transients = random.Poisson(spec.transients);
  for (int i = 0; i < transients; ++i) {
    const int rank = random.Below(spec.ranks);
    const double factor = random.Between(spec.transient_factor.low, spec.transient_factor.high);
    const auto length =
        static_cast<int64_t>(random.Between(spec.transient_steps.low, spec.transient_steps.high));
    const auto begin = static_cast<int64_t>(random.Unit() * spec.steps);
    const int node = rank / spec.ranks_per_node * spec.ranks_per_node;
    Fault fault;
    fault.ranks = spec.transient_nodes
                      ? Sequence(node, std::min(spec.ranks, node + spec.ranks_per_node))
                      : std::vector<int>{rank};
    if (begin + length > spec.steps ||
        std::any_of(fault.ranks.begin(), fault.ranks.end(),
                    [&](int slow) { return taken.count(slow) > 0; })) {
      continue;
    }
    taken.insert(fault.ranks.begin(), fault.ranks.end());
    if (spec.transient_nodes) {
      fault.scope = AreMany(CountByStage(fault.ranks, spec), spec) ? Scope::kGroup : Scope::kNode;
    }
    fault.factor = factor;
    fault.stage = StageOf(fault.ranks, spec);
    fault.begin = begin;
    fault.end = begin + length;
    faults.push_back(std::move(fault));
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.begin < b.begin; });
  return faults;
}

}  // namespace paceline::detect
