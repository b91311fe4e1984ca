// Exact confidence bounds of rates, computed from counts.
#ifndef BENCH_STRAGGLERS_EXACT_BOUNDS_H_
#define BENCH_STRAGGLERS_EXACT_BOUNDS_H_

#include <cstdint>

namespace paceline::detect {

struct Interval {
  double low = 0;
  double high = 1;
};

// The two-sided 95 % interval of a probability after `successes` in `trials`, by C. Clopper and
// E. Pearson ("The use of confidence or fiducial limits", Biometrika 1934). Without trials it is
// [0, 1].
Interval ClopperPearson(int64_t successes, int64_t trials);

// The one-sided exact 95 % bound of a Poisson mean (F. Garwood, Biometrika 1936): the mean for
// which at most `events` events have a probability of 5 %. For 0 events: 3.0.
double PoissonUpper(int64_t events);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_EXACT_BOUNDS_H_
