// Finds the warm-up steps of a trace: the first steps take longer because of compilation, caches
// and growing memory. A trace may also begin in the middle of a job, without a warm-up.
#ifndef BENCH_STRAGGLERS_WARM_UP_H_
#define BENCH_STRAGGLERS_WARM_UP_H_

#include <cstddef>

#include "bench/stragglers/trace.h"

namespace paceline::detect {

// Number of first steps of a generation to leave out: up to the last one, among the first 20 or the
// first quarter if that is less, in which the workers of a stage took 5 % longer than they usually
// do later (medians). Single workers do not matter.
int WarmUpSteps(const Trace& trace, size_t generation);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_WARM_UP_H_
