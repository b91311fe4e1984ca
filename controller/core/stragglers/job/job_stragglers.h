// The stragglers of one job: from its ranks' measurements to decisions.
//
//   StepTimes ─┬─▶ StragglerDetector ─▶ verdicts ─────────────╮
//              ╰─▶ StepRows ─┬─▶ LadderStalls ─▶ PlanLadder ──┼─▶ RemedyPolicy ─▶ RemedyActions
//                            ├─▶ mean step, costs, Trial ─────╯
//                            ╰─▶ ExchangeWatch ─▶ verdicts, for people only
//
// Only steps of the generation that trains count. With a new generation or plan version, the
// detector and the watch of the exchanges start over. While ranks are being replaced nothing is
// taken in, and late steps from before are dropped. Ranks are compared with those on the same kind
// of hardware.
//
// What an average of parameters costs is not known before the first one. Until then the exchange of
// the gradients stands for it: it has as many bytes, but part of it hides behind the backward pass.
// So a first plan may promise too much; the check afterwards shows that.
//
// The job itself shows what has become of an order (order_progress.h).
//
// Pure. Thread-compatible. References are valid until the next call.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_JOB_STRAGGLERS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_JOB_STRAGGLERS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/requests/refusal.h"
#include "controller/core/stragglers/detector/detector.h"
#include "controller/core/stragglers/job/exchange_watch.h"
#include "controller/core/stragglers/job/job_trials.h"
#include "controller/core/stragglers/job/job_view.h"
#include "controller/core/stragglers/job/reported_verdicts.h"
#include "controller/core/stragglers/job/step_rows.h"
#include "controller/core/stragglers/job/step_times.h"
#include "controller/core/stragglers/ladder/ladder_cost.h"
#include "controller/core/stragglers/ladder/ladder_planner.h"
#include "controller/core/stragglers/ladder/ladder_stalls.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"
#include "controller/core/stragglers/slipstream/own_history.h"
#include "controller/core/stragglers/slipstream/strategy_advice.h"

namespace paceline {

struct StragglerOptions {
  DetectorOptions detector;
  LadderOptions ladder;
  RemedyOptions remedy;
  // Time between two plans of a ladder or strategy.
  absl::Duration plan_every = absl::Seconds(10);
};

class JobStragglers {
 public:
  JobStragglers(const StragglerOptions& options, StragglerMode mode);
  JobStragglers(const JobStragglers&) = delete;
  JobStragglers& operator=(const JobStragglers&) = delete;

  // Takes over what was stored. Call it before anything else.
  RemedyActions Restore(std::vector<RemedyDecision> decisions, Moment now);

  // The job, or what is around it, has changed.
  RemedyActions Follow(const JobView& view, Moment now);

  // Takes in steps that a trainer has finished, as its node reports them, oldest first.
  RemedyActions TakeSteps(const NodeName& node, const TrainerId& trainer,
                          absl::Span<const StepTimes> steps, const JobView& view, Moment now);

  // As in RemedyPolicy.
  std::optional<Refusal> RefuseApply(int64_t advice, const JobView& view) const;
  RemedyActions Apply(int64_t advice, const std::string& by, const JobView& view, Moment now);

  // Call it at NextDeadline.
  RemedyActions Tick(const JobView& view, Moment now);
  // Steady; infinite: never.
  absl::Time NextDeadline() const;

  const RemedyPolicy& policy() const { return policy_; }
  const ReportedVerdicts& reported() const { return reported_; }
  const std::optional<LadderPlan>& plan() const { return plan_; }
  // For a job that leaves its strategy to the controller.
  const std::optional<StrategyAdvice>& strategy_advice() const { return strategy_advice_; }
  // Time of the latest step that all ranks have reported; 0: none yet.
  double step_s() const { return step_s_; }
  int64_t steps_seen() const { return rows_seen_; }
  // Ranks that have too few peers to be judged.
  std::vector<int> Unjudged() const;
  // Records dropped: of another generation, no member, beyond the job's end, or nonsense.
  int64_t dropped() const { return dropped_; }

 private:
  // What was measured of one generation; it is forgotten with it.
  struct Measured {
    Measured(int ranks, int open_steps, bool slipstream)
        : stalls(ranks), rows(ranks, open_steps, /*ranks_skip=*/slipstream) {
      if (slipstream) own.emplace(ranks);
    }

    LadderStalls stalls;
    std::optional<OwnHistory> own;  // Only with Slipstream.
    StepRows rows;
    // With Slipstream: as it was when the first plan was made.
    std::optional<int64_t> stretched_before;
    int64_t stalls_before = 0;
    AllReduceCosts averaging;
    double gradient_exchange_s = 0;  // For the latest synchronous steps,
    double gradient_bytes = 0;       // and what a rank sent in the latest one.
    StepSpan span;                   // The one being filled.
    int rows_to_skip = 0;            // How many first rows are still to be skipped as not typical.
  };
  // What an order under way found when it was given.
  struct Order {
    int64_t id = 0;
    absl::Time given;  // Steady.
    int64_t step = 0;
    std::vector<int> ranks;  // Those on the decision's node then.
  };

  void Begin(const JobView& view);
  void WatchExchanges(const JobView& view);
  void TakeStep(int rank, const StepTimes& times, const JobView& view, Moment now);
  void TakeRow(const StepRow& row, const JobView& view, Moment now);
  void Judge(const JobView& view, Moment now);
  void FollowOrder(const JobView& view, Moment now);
  void Plan(const JobView& view, Moment now);
  void PlanTheLadder(const JobView& view, Moment now);
  void PlanTheStrategy(const JobView& view, Moment now);
  // Predicts outer steps, for advice. Not for Slipstream, nor for scripts, which cannot make any.
  void LookAtOuterSteps(const LadderInputs& measured, const JobView& view, Moment now);
  // The share of stalls that freeze communication, by what the ranks have reported so far.
  double FreezingShare(const Job& job);
  bool MayPlan(const JobView& view, Moment now) const;
  RemedyActions Conclude(const JobView& view, Moment now);
  void Add(RemedyActions actions);

  const StragglerOptions options_;
  RemedyPolicy policy_;

  // What is being followed; -1: nothing yet.
  Generation generation_{-1};
  PlanVersion plan_version_{-1};
  int64_t first_step_ = 0;  // The generation's; earlier steps are another's.
  // The rank by process, which is known by the generation and rank that it was started for.
  absl::flat_hash_map<std::pair<Generation, Rank>, int> ranks_;
  std::vector<NodeName> nodes_;  // By the detector's number, which stays the same.
  std::unique_ptr<StragglerDetector> detector_;
  std::unique_ptr<Measured> measured_;
  std::optional<ExchangeWatch> exchanges_;  // For the present generation and plan version.

  ReportedVerdicts reported_;
  std::optional<LadderPlan> plan_;
  std::optional<StrategyAdvice> strategy_advice_;
  // What the other strategy cost when the job last trained by it.
  double synchronous_exchange_s_ = 0;
  double synchronous_bytes_ = 0;
  SlipstreamCosts slipstream_costs_;
  absl::Time plan_due_ = absl::InfinitePast();  // Steady.
  std::optional<Order> order_;
  JobTrials trials_;
  double step_s_ = 0;
  int64_t rows_seen_ = 0;
  int64_t dropped_ = 0;
  std::vector<Verdict> found_;                    // Scratch.
  std::vector<StepRow> found_rows_;               // Scratch.
  std::vector<ExchangeVerdict> found_exchanges_;  // Scratch.
  RemedyActions actions_;                         // From the call under way.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_JOB_STRAGGLERS_H_
