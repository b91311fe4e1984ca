// What can be done about a straggler, and what was decided, as values to be stored and shown.
//
//              a person applies it,           done              as predicted
//              or mode auto
//   ADVISED ─────────────────────▶ ORDERED ─────────▶ CHECKING ───────────────▶ HELPED
//      │ the reason is gone           │ failed            ├─ not so ──────────▶ DID_NOT_HELP
//      ▼                              ▼                   ╰─ nobody can tell ─▶ UNCHECKED
//   WITHDRAWN                      FAILED
//
// The undoing of a decision is a decision of its own, and DONE without a check.
#ifndef CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_H_
#define CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/ladder.h"
#include "controller/core/job/slipstream_choice.h"
#include "controller/core/job/straggler_mode.h"
#include "controller/core/stragglers/detector/verdict.h"
#include "controller/core/stragglers/ladder/ladder_planner.h"
#include "controller/core/stragglers/slipstream/strategy_advice.h"

namespace paceline {

enum class RemedyKind {
  kLadder,     // Another ladder, or none, by a new plan version.
  kHotSwap,    // A spare that stands by takes the rank's seat.
  kDrain,      // The node is drained: its ranks move to spares or new trainers.
  kShrink,     // The rank is given up, and the job goes on without.
  kAskPerson,  // Paceline neither can nor should do anything itself.
  kStrategy,   // Another strategy, if the job leaves the choice to the controller.
  // Outer steps where exchanges take long: they change what is computed, so a person takes them.
  kOuterStep,
};

// Whether the remedy changes what all ranks train by, and so concerns no single rank.
constexpr bool IsOfPlan(RemedyKind kind) {
  return kind == RemedyKind::kLadder || kind == RemedyKind::kStrategy ||
         kind == RemedyKind::kOuterStep;
}

// Whether Paceline only advises it, and neither the automation nor `job apply` carries it out.
constexpr bool IsForPeople(RemedyKind kind) {
  return kind == RemedyKind::kAskPerson || kind == RemedyKind::kOuterStep;
}

enum class DecisionState {
  kAdvised,
  kOrdered,
  kChecking,
  kHelped,
  kDidNotHelp,
  kUnchecked,
  kDone,
  kFailed,
  kWithdrawn,
};

// One of the options that a decision was chosen from.
struct RemedyOption {
  RemedyKind kind = RemedyKind::kAskPerson;
  double cost_s = 0;   // Paid once.
  double step_s = 0;   // Predicted mean step thereafter.
  double total_s = 0;  // The cost, and what will still be lost until the job's end.
};

// The mean step of a job.
struct StepMean {
  double seconds = 0;  // Mean time of a step.
  double error = 0;    // Standard error.
};

struct RemedyDecision {
  int64_t id = 0;  // 1-based, within the job; never used twice.
  RemedyKind kind = RemedyKind::kAskPerson;
  DecisionState state = DecisionState::kAdvised;
  absl::Time made;     // Wall.
  int64_t undoes = 0;  // Id of the decision that it takes back; 0: none.
  bool automatic = false;
  std::string by;  // Who applied it; empty: nobody, or the automation.

  // What it is based on.
  Generation generation;
  PlanVersion plan_version;
  int64_t step = 0;
  int rank = -1;  // -1: the node, or the job.
  NodeName node;
  Verdict verdict;  // Not for a change of plan.
  StepMean before;
  std::optional<LadderPlan> plan;                 // For kLadder, unless it is an undo.
  std::optional<StrategyAdvice> strategy_advice;  // For kStrategy, unless it is an undo.
  double lost_s = 0;                              // Until then.
  std::vector<RemedyOption> options;              // Best first; empty: nothing was possible.
  std::string reason;                             // One line.

  // What it does.
  // For kLadder: the one to take up. For kOuterStep: the one advised, whose `outer` is not stored.
  Ladder ladder;
  Ladder former;  // For kLadder: the one before.
  // The same for kStrategy; nothing: ddp.
  std::optional<SlipstreamChoice> strategy;
  std::optional<SlipstreamChoice> former_strategy;
  double cost_s = 0;       // Expected, once.
  double predicted_s = 0;  // Mean step thereafter.

  // Its outcome.
  double paid_s = 0;           // The cost as measured; 0: not known.
  double measured_s = 0;       // Mean step thereafter; 0: not measured.
  double without_s = 0;        // What the same steps would have taken without it; 0: not known.
  Generation done_generation;  // In which it was done.
  PlanVersion done_plan_version;
  std::string outcome;                      // One line; empty: none yet.
  absl::Time ended = absl::InfinitePast();  // Wall.

  // Steady, not stored: when it came to its present state.
  absl::Time since = absl::InfinitePast();
};

// Whether the decision is advice, an order neither done nor failed, or an order being checked.
inline bool IsOpenAdvice(const RemedyDecision& d) { return d.state == DecisionState::kAdvised; }
inline bool IsInFlight(const RemedyDecision& d) { return d.state == DecisionState::kOrdered; }
inline bool IsChecked(const RemedyDecision& d) { return d.state == DecisionState::kChecking; }

// Whether it stands whatever becomes of the job, as the undo of a drain: the node waits for it.
inline bool OutlivesGenerations(const RemedyDecision& d) {
  return d.undoes > 0 && d.kind == RemedyKind::kDrain;
}

// In UPPER_SNAKE, for people and for records.
const char* NameOf(RemedyKind kind);
const char* NameOf(DecisionState state);

// "hot-swap of rank 5 on n3", "ladder 2:8,8:all", "undo of decision 3: ladder synchronous".
std::string DescribeRemedy(const RemedyDecision& decision);

// A node that a decision may concern, as the cluster sees it now.
struct RemedyNode {
  int ranks = 1;            // The job's ranks there.
  int slots_elsewhere = 0;  // Free slots for the job's ranks on other nodes.
  std::string brake;        // Why the automation must not drain it; empty: it may.
  int replaced_before = 0;  // How often a straggler was replaced there, in any job.
};

// The job as it is now. The policy keeps none of this.
struct RemedyFacts {
  Generation generation;
  PlanVersion plan_version;   // The one all ranks train by.
  bool running = false;       // RUNNING, with no change of membership under way.
  bool plan_pending = false;  // A newer plan is not taken up yet.
  bool has_ladder = false;    // Its strategy has a ladder, which can be changed.
  bool is_auto = false;       // Its strategy is chosen here.
  bool recovers = false;      // Its ranks can be replaced while it trains.
  int ranks = 0;
  int min_ranks = 0;  // How far it may shrink; 0: not at all.
  int64_t step = 0;
  int64_t steps_left = 0;
  int spares = 0;          // Those that stand by or start.
  int checked_spares = 0;  // Those of them that are ready and have passed a check.
  std::string brake;       // Why the automation must do nothing now; empty: it may.
  // Requires: set.
  std::function<RemedyNode(const NodeName&)> node;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_H_
