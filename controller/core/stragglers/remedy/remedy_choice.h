// What a straggler costs a job, what each remedy would cost, and which is the cheapest.
//
//             until the job's end                          needs
//   nothing   share * step * steps left
//   hot-swap  its cost                                     a checked spare for each rank there
//   drain     its cost, of a swap or of a cold start       a spare or slot for each rank there
//   shrink    its cost + healthy step / (N - 1) * steps left      N - 1 >= recovery.min_ranks
//
// where `share` is what the verdict says is lost, `step` the job's mean step, and `healthy step`
// what it is without the straggler. A remedy is worth it if it costs less than doing nothing, and
// due when as much has been lost as it costs once: then one pays at most twice what the best choice
// would have cost with knowledge of the future (the ski-rental rule).
//
// A cost is the mean of what the latest decisions of the kind have really cost. Before there are
// any: a hot-swap 2 steps (docs/benchmarks.md, hotswap), a cold start 30 s, shrinking 5 s, a ladder
// 2 steps, another strategy 2 s.
//
// The whole node is drained for a NODE verdict, and for a rank that was slow three times or more. A
// rank that waits for its network, or has more work than its peers, is no worse than another would
// be in its place, so it is not replaced for such causes.
//
// Pure.
#ifndef CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_CHOICE_H_
#define CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_CHOICE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

// A persistent straggler.
struct StragglerCase {
  Verdict verdict;  // kPersistent or kNode.
  NodeName node;
  double lost_s = 0;                             // What it has cost so far.
  absl::Time held_until = absl::InfinitePast();  // Steady; in doubt until then.
  bool is_pending = false;                       // It is to be replaced, now or when that is due.
};

struct RemedyCosts {
  double hot_swap_steps = 2;
  double cold_start_s = 30;
  double shrink_s = 5;
  double ladder_steps = 2;
  double strategy_s = 2;
};

// Paid once, in seconds. `cold`: for a drain, not all ranks find a spare.
double CostOf(RemedyKind kind, bool cold, double step_s, const RemedyCosts& defaults,
              const std::vector<RemedyDecision>& decisions);

// Whether the remedy must not be tried again, as it failed or did not help within `pause`. After a
// rank was replaced in vain, no other way of replacing it is tried either.
bool IsBlocked(RemedyKind kind, int rank, const NodeName& node,
               const std::vector<RemedyDecision>& decisions, absl::Time steady_now,
               absl::Duration pause);

struct RemedyChoice {
  double nothing_s = 0;               // Lost until the end if nothing is done.
  std::vector<RemedyOption> options;  // The possible ones, best first.
  std::string obstacles;              // Why others are impossible; a list for people.
};

// Requires: before.seconds > 0.
RemedyChoice WeighRemedies(const StragglerCase& straggler, const RemedyFacts& facts,
                           const StepMean& before, const RemedyCosts& costs,
                           const std::vector<RemedyDecision>& decisions, absl::Time steady_now,
                           absl::Duration pause);

// Why the remedy is impossible now; empty: it is possible. Ignores brakes of the automation.
std::string WhyImpossible(RemedyKind kind, bool undo, const NodeName& node,
                          const RemedyFacts& facts);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_CHOICE_H_
