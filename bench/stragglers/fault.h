// A slowdown in a generated history: its label, and the truth that verdicts are judged by.
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
  // Of each of them: its time without the fault and without chance / that of its peers.
  std::vector<double> usual;
  int stage = -1;     // -1: of several.
  int64_t begin = 0;  // First step, and the one after the last.
  int64_t end = 0;
  bool lasting = false;  // To the end of the history.
  int ramp = 0;          // Of the spec.
  int on = 0;
  int off = 0;

  bool Covers(int rank) const;

  // Time of its ranks / what it would be without.
  double FactorAt(int64_t step) const;

  // What the detector should find for a rank that it covers: with its `usual`, if that
  // is known.
  double SlowdownOf(int rank) const;

  // Whether its ranks are a small part of their peers, so that they can be told from them.
  bool of_few() const { return scope == Scope::kRank || scope == Scope::kNode; }
};

// The faults and transients of a history, by begin. Lasting faults are on nodes of their own and go
// round the stages, and those that would make more than a quarter of a stage slow together are left
// out; transients are on ranks without a lasting fault, each on another one.
std::vector<Fault> DrawFaults(const HistorySpec& spec, Random& random);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_FAULT_H_
