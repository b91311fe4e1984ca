// Plays the sweep's histories to the detector and to the peers' rules, and adds up their figures.
#ifndef BENCH_STRAGGLERS_EVALUATION_H_
#define BENCH_STRAGGLERS_EVALUATION_H_

#include <string>
#include <vector>

#include "bench/stragglers/figures.h"
#include "bench/stragglers/sweep.h"

namespace paceline::detect {

struct RuleFigures {
  std::string name;  // "Paceline" or a peer's (peer_rules.h).
  Figures figures;
};

struct RowFigures {
  SweepRow row;
  std::vector<RuleFigures> rules;  // Paceline first.
};

struct EvaluationOptions {
  Seeds seeds = kReportingSeeds;
  int peers_every = 4;  // Peers get one in this many histories of a row; 0: none.
  int threads = 2;
};

// Requires: every row's spec can be parsed. The result does not depend on the threads.
std::vector<RowFigures> Evaluate(const std::vector<SweepRow>& rows,
                                 const EvaluationOptions& options);

// Sums over rows, for each rule. Requires: at least one row.
std::vector<RuleFigures> Total(const std::vector<RowFigures>& rows);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_EVALUATION_H_
