// A number for what of a job must survive the controller: all that a plan, or a later decision,
// follows from. Deadlines begin anew with the controller, and progress is told again.
#ifndef TESTS_SIM_DIGEST_H_
#define TESTS_SIM_DIGEST_H_

#include <cstdint>

#include "controller/core/job.h"

namespace paceline::sim {

uint64_t DigestOf(const Job& job);

}  // namespace paceline::sim

#endif  // TESTS_SIM_DIGEST_H_
