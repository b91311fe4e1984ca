// Plays a trace to the detector.
#ifndef BENCH_STRAGGLERS_REPLAY_H_
#define BENCH_STRAGGLERS_REPLAY_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/stragglers/trace.h"

namespace paceline::detect {

// Returns one object per verdict, in the order in which they became known: {"step", "dp", "stage",
// "node", "kind", "slowdown", "cause", …} with null for what does not apply, and "generation" if
// the trace has it. Then {"summary": …}: the rows, each stage's workers, state and time beside the
// others', and the number of verdicts of each kind. Its "notes" say in words what could not be read
// or judged. The first `warm_up_steps` steps of the job and after a restart are left out; without a
// number, those that are longer than usual (warm_up.h).
std::vector<nlohmann::json> Replay(const Trace& trace, std::optional<int> warm_up_steps);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_REPLAY_H_
