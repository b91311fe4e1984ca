// Plays a trace to the detector.
#ifndef BENCH_STRAGGLERS_REPLAY_H_
#define BENCH_STRAGGLERS_REPLAY_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "bench/stragglers/trace.h"

namespace paceline::detect {

// One object per verdict, in the order in which they became known, {"step", "dp", "stage", "node",
// "kind", "slowdown", "cause", …} with null for what does not apply; then {"summary": …} about the
// rows, each stage's workers, state and time beside the others', and how many verdicts of each kind
// there are. The first `warm_up_steps` of the job and after a restart are left out.
std::vector<nlohmann::json> Replay(const Trace& trace, int warm_up_steps);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_REPLAY_H_
