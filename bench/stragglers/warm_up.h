// Which steps of a trace are its warm-up: the first ones take longer for compilation, caches and
// memory that grows. A trace may also begin in the midst of a job, where nothing warms up.
#ifndef BENCH_STRAGGLERS_WARM_UP_H_
#define BENCH_STRAGGLERS_WARM_UP_H_

#include <cstddef>

#include "bench/stragglers/trace.h"

namespace paceline::detect {

// How many of the first steps of a generation are left out: up to the last one of the first 20, or
// of the first quarter if that is less, in which the workers of a stage took 5 % longer than they
// usually do later (medians). What a single worker does in them does not matter.
int WarmUpSteps(const Trace& trace, size_t generation);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_WARM_UP_H_
