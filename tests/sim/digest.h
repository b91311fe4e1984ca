// Digests of the state of a job or node that must survive the controller: all that a plan, or a
// later decision, follows from. Deadlines start over with the controller, and progress is reported
// again.
#ifndef TESTS_SIM_DIGEST_H_
#define TESTS_SIM_DIGEST_H_

#include <cstdint>

#include "controller/core/job/job.h"
#include "controller/core/node/automation.h"
#include "controller/core/node/node.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline::sim {

uint64_t DigestOf(const Job& job);
uint64_t DigestOf(const Node& node);
uint64_t DigestOf(const Automation& automation);
// Without the options, and without the measurements of the check, which start over, too.
uint64_t DigestOf(const RemedyDecision& decision);

}  // namespace paceline::sim

#endif  // TESTS_SIM_DIGEST_H_
