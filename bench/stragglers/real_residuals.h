// How the steps of real workers differed from those of their peers. For each healthy worker of the
// traces in testdata/ (see the README there for their origin): the logarithm of its compute divided
// by the median of its stage, minus the mean of these logarithms, divided by their standard
// deviation, in the steps' order.
#ifndef BENCH_STRAGGLERS_REAL_RESIDUALS_H_
#define BENCH_STRAGGLERS_REAL_RESIDUALS_H_

#include <cstdint>
#include <vector>

namespace paceline::detect {

// In hundredths of the standard deviation, by worker.
const std::vector<std::vector<int16_t>>& RealResiduals();

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_REAL_RESIDUALS_H_
