// What counts prove about the rates behind them, without approximations.
#ifndef BENCH_STRAGGLERS_EXACT_BOUNDS_H_
#define BENCH_STRAGGLERS_EXACT_BOUNDS_H_

#include <cstdint>

namespace paceline::detect {

struct Interval {
  double low = 0;
  double high = 1;
};

// Of a probability of which `successes` of `trials` were seen: the two-sided 95 % interval of
// C. Clopper and E. Pearson ("The use of confidence or fiducial limits", Biometrika 1934). Without
// trials it is [0, 1].
Interval ClopperPearson(int64_t successes, int64_t trials);

// Least number of expected events at which as few as `events` have a chance of 5 %: the one-sided
// exact 95 % bound of a Poisson mean (F. Garwood, Biometrika 1936). 0 events: 3.0.
double PoissonUpper(int64_t events);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_EXACT_BOUNDS_H_
