// Models of the noise in the step times of a job's ranks (Noise in history_spec.h).
#ifndef BENCH_STRAGGLERS_NOISE_H_
#define BENCH_STRAGGLERS_NOISE_H_

#include <vector>

#include "bench/stragglers/history_spec.h"
#include "bench/stragglers/random.h"

namespace paceline::detect {

// Each rank's values have mean 0, standard deviation `sd`, and correlation `rho` from step to step
// (kReal: that of the traces). Those of kBursts are loud at the same time on a node.
//
// Thread-compatible.
class NoiseModel {
 public:
  // Requires: kind is not kMixed.
  NoiseModel(Noise kind, double sd, double rho, int ranks, int ranks_per_node, uint64_t seed);

  // Call this before the ranks of each step.
  void NextStep();

  // Difference of the logarithm of the rank's compute at this step. Call once per rank and step.
  double Next(int rank) {
    if (kind_ == Noise::kReal) return sd_ * NextReal(rank);
    double& value = last_[static_cast<size_t>(rank)];
    value = rho_ * value + fresh_ * Innovation(rank);
    return sd_ * value;
  }

 private:
  // Of variance 1.
  double Innovation(int rank);
  double NextReal(int rank);

  struct Position {
    size_t worker = 0;
    size_t at = 0;
    int left = 0;
  };

  const Noise kind_;
  const double sd_;
  const double rho_;
  const double fresh_;  // Factor of the innovation that keeps the variance at 1.
  const int ranks_per_node_;
  Random random_;
  std::vector<double> last_;         // By rank.
  std::vector<Position> positions_;  // By rank; kReal only.
  std::vector<char> loud_;           // By node; kBursts only.
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_NOISE_H_
