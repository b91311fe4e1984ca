// A slowdown in a generated history: its label, and the truth by which verdicts are judged.
#ifndef BENCH_STRAGGLERS_FAULT_H_
#define BENCH_STRAGGLERS_FAULT_H_

#include <cstdint>
#include <vector>

#include "bench/stragglers/history_spec.h"
#include "bench/stragglers/random.h"

namespace paceline::detect {

struct Fault {
  Scope scope = Scope::kRank;  // kGroup also for a node with more than a quarter of its peers.
  Shape shape = Shape::kStep;
  FaultCause cause = FaultCause::kCompute;
  double factor = 1;
  std::vector<int> ranks;  // Ascending.
  // For each of them: its time without the fault and without noise, divided by that of its peers.
  std::vector<double> usual;
  int stage = -1;     // -1: several.
  int64_t begin = 0;  // First step, and the one after the last.
  int64_t end = 0;
  bool lasting = false;  // To the end of the history.
  int ramp = 0;          // As in the spec.
  int on = 0;
  int off = 0;

  bool Covers(int rank) const;

  // Time of its ranks, divided by the time without the fault.
  double FactorAt(int64_t step) const;

  // The slowdown that the detector should find for a rank of this fault: includes its `usual`, if
  // that is known.
  double SlowdownOf(int rank) const;

  // Whether its ranks are so few that they can be told from their peers.
  bool of_few() const { return scope == Scope::kRank || scope == Scope::kNode; }
};

// The faults and transients of a history, sorted by begin. Lasting faults are on different nodes
// and go round the stages; those that would make more than a quarter of a stage slow are left out.
// Transients are on ranks without a lasting fault, each on a different rank.
std::vector<Fault> DrawFaults(const HistorySpec& spec, Random& random);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_FAULT_H_
