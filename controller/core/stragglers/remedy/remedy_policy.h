// Decides for one job what is done about its stragglers, and looks whether it helped.
//
// Events come in, and what is to be stored and done comes out; whoever carries an order out tells
// what became of it. At most one order is under way, and none is begun before the last one was
// checked. Rules, beside those of remedy_choice.h and ladder_planner.h:
//
//   - A verdict counts only for the generation and plan epoch that the job has, and not if it rests
//     on steps that are masked. With a new generation or epoch all that was advised is withdrawn,
//     but for the undo of a drain.
//   - A GROUP verdict is none on a rank: advices on the ranks of its peer group are withdrawn, for
//     `doubt` nothing is done about them. A person is told when the slower group has cost the job
//     `ask_share` of its time and `tell_group_s` in all. Nobody is replaced while more than a
//     quarter of the ranks are slow at once; if they persist, a person is asked.
//   - A rank that is well again is left alone. While a node is slow, nothing is done about its
//     ranks one by one; it is no longer when less than two of them are.
//   - The ladder changes only if no straggler is about to be replaced, after two plans in a row
//     that see a gain, of which the newer one's ladder is taken (three to give a ladder up), and at
//     most once per `ladder_window`; to take a change back that did not help is no change. So does
//     the strategy of a job that leaves it to the controller; six plans give up what gains nothing.
//   - By itself (kAuto; strategies in kAdvise, too) the policy acts only if no brake is on, and not
//     within `cool_down` of the end of an order, or of a check that ends badly.
//   - A swap that has no spare any more, and no place for another, has failed after `doubt`.
//   - What has failed or did not help is not repeated for the same rank or node within `pause`.
//     When there is nothing else, a person is asked.
//   - A ladder or strategy that did not help is taken back, and so is the drain of a node, whatever
//   generation
//     the job has by then; by itself only if it was automatic, as people's holds are theirs.
//
// The check: after `settling_steps`, steps are measured until it is certain whether they have
// become shorter by half of what was predicted (remedy_check.h), at most `check_steps`; otherwise
// it stays open (UNCHECKED), as it does when something else changes the job meanwhile. They are
// compared with what the same steps would have taken without the remedy, where that is known
// (OnComparedSteps), else with the steps before.
//
// Pure. Thread-compatible. References are valid until the next call.
#ifndef CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_POLICY_H_
#define CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/requests/refusal.h"
#include "controller/core/stragglers/detector/verdict.h"
#include "controller/core/stragglers/ladder/ladder_planner.h"
#include "controller/core/stragglers/remedy/remedy.h"
#include "controller/core/stragglers/remedy/remedy_check.h"
#include "controller/core/stragglers/remedy/remedy_choice.h"

namespace paceline {

// The newest so many decisions that have come to an end are kept.
inline constexpr size_t kDecisionsKept = 100;

struct RemedyOptions {
  RemedyCosts costs;
  absl::Duration cool_down = absl::Minutes(1);
  absl::Duration ladder_window = absl::Minutes(10);  // Of strategies, too.
  absl::Duration pause = absl::Hours(1);
  absl::Duration doubt = absl::Minutes(1);
  absl::Duration order_timeout = absl::Minutes(15);
  absl::Duration check_timeout = absl::Hours(1);  // Longer for long steps: CheckTimeout.
  int64_t settling_steps = 20;
  int64_t min_check_steps = 100;
  int64_t check_steps = 1000;  // At most 1,000.
  // A person is asked when a straggler that nothing can be done about takes so much.
  double ask_share = 0.05;
  // Of a group that takes as large a share, a person is told when so many seconds were lost.
  double tell_group_s = 30;
};

// How long the decision may be checked: twice the time of as many steps as a check may take, and
// check_timeout at least.
absl::Duration CheckTimeout(const RemedyDecision& decision, const RemedyOptions& options);

// A verdict, with where it comes from.
struct VerdictReport {
  Verdict verdict;
  NodeName node;  // Of verdict.node.
  Generation generation;
  PlanEpoch epoch;
  bool masked = false;  // Its steps are not typical.
};

// Steps of the job since the window before. Those that are masked are left out.
struct StepSpan {
  Generation generation;
  PlanEpoch epoch;
  int64_t first_step = 0;
  int64_t steps = 0;
  double seconds = 0;  // Of all of them.
};

struct LadderReport {
  LadderPlan plan;
  Generation generation;
  PlanEpoch epoch;
};

struct StrategyReport {
  StrategyAdvice advice;
  Generation generation;
  PlanEpoch epoch;
};

// What is to be done after an event, in this order.
struct RemedyActions {
  std::vector<int64_t> store;    // Decisions that are new or have changed; ascending.
  std::vector<int64_t> forget;   // Too old; no longer known.
  std::optional<int64_t> order;  // A decision to be carried out.
};

class RemedyPolicy {
 public:
  RemedyPolicy(const RemedyOptions& options, StragglerMode mode);

  // Takes over what was stored, by id; before anything else. Advices are withdrawn, as the detector
  // starts over, too; orders are still under way, and checks start over.
  RemedyActions Restore(std::vector<RemedyDecision> decisions, Moment now);

  RemedyActions SetMode(StragglerMode mode, const RemedyFacts& facts, Moment now);
  RemedyActions OnVerdict(const VerdictReport& report, const RemedyFacts& facts, Moment now);
  RemedyActions OnStepTimes(const StepSpan& window, const RemedyFacts& facts, Moment now);
  // While a remedy is being checked. What was compared is worth more than what was measured before.
  RemedyActions OnComparedSteps(const ComparedSteps& compared, const RemedyFacts& facts,
                                Moment now);
  RemedyActions OnLadderPlan(const LadderReport& report, const RemedyFacts& facts, Moment now);
  RemedyActions OnStrategyAdvice(const StrategyReport& report, const RemedyFacts& facts,
                                 Moment now);

  // The order was carried out: all ranks train by it. `paid_s`: what it has cost the job; 0: not
  // known. What is not under way changes nothing.
  RemedyActions OnRemedyDone(int64_t id, double paid_s, const RemedyFacts& facts, Moment now);
  RemedyActions OnRemedyFailed(int64_t id, const std::string& error, const RemedyFacts& facts,
                               Moment now);
  // Nothing more can be done or measured.
  RemedyActions OnJobEnded(Moment now);

  // Why the advice cannot be applied: ADVICE_NOT_FOUND, ADVICE_CLOSED, ADVICE_NOT_APPLICABLE,
  // REMEDY_IN_FLIGHT, REMEDY_IMPOSSIBLE.
  std::optional<Refusal> RefuseApply(int64_t id, const RemedyFacts& facts) const;
  // By a person: brakes and pauses of the automation do not count. Requires: RefuseApply has no
  // objection.
  RemedyActions Apply(int64_t id, const std::string& by, const RemedyFacts& facts, Moment now);

  // To be called at NextDeadline, and when facts have changed.
  RemedyActions Tick(const RemedyFacts& facts, Moment now);
  // Steady; infinite: never.
  absl::Time NextDeadline() const;

  StragglerMode mode() const { return mode_; }
  // By id.
  const std::vector<RemedyDecision>& decisions() const { return decisions_; }
  const RemedyDecision* Find(int64_t id) const;
  // Stragglers that persist, by rank; of nodes under -1 - their number, beside those of their
  // ranks.
  const std::map<int, StragglerCase>& cases() const { return cases_; }
  // Reports that did not count, as they were of another generation or epoch, masked, or nonsense.
  int64_t ignored() const { return ignored_; }

 private:
  // A change of the plan that planners see a gain in, or no loss.
  struct PlanWish {
    RemedyDecision decision;  // As far as it follows from the latest plan.
    bool returns = false;     // It gives up what gains too little.
    double ratio = 1;         // Predicted step over the present one's.
    int plans_needed = 0;
    int seen = 0;       // Plans in a row that want the same.
    double lost_s = 0;  // Since the first.
  };

  bool IsPresent(Generation generation, PlanEpoch epoch, const RemedyFacts& facts) const;
  RemedyDecision* FindMutable(int64_t id);
  // The decision that is under way or being checked; null: none.
  RemedyDecision* UnderWay();

  // What changes with a new generation or epoch.
  void Follow(const RemedyFacts& facts, Moment now);
  void SetState(RemedyDecision& decision, DecisionState state, Moment now);

  void TakeWish(std::optional<PlanWish> wish, RemedyKind kind, const std::string& reason,
                Moment now);

  // remedy_cases.cc.
  void TakeInStraggler(const VerdictReport& report, const RemedyFacts& facts, Moment now);
  void TakeInRecovery(const VerdictReport& report, Moment now);
  void TakeInGroup(const VerdictReport& report, Moment now);
  // Seconds lost from its first step to the verdict.
  double LostUntil(const Verdict& verdict) const;
  // To stragglers and slow groups, in so many seconds of steps.
  void AddLoss(double seconds);
  // Tells a person of the groups whose loss matters.
  void TellOfGroups(const RemedyFacts& facts, Moment now);
  bool HasNodeCase(int node) const;
  // Ranks that persist in being slow.
  int CountSlowOn(const NodeName& node) const;
  int CountPersistent() const;

  // remedy_outcome.cc.
  void MeasureCheck(const StepSpan& window, const RemedyFacts& facts, Moment now);
  // Ends the check if that is certain, or the steps are enough.
  void JudgeCheck(RemedyDecision& decision, RemedyEffect effect, int64_t steps,
                  const std::string& figures, const RemedyFacts& facts, Moment now);
  void EndCheck(RemedyDecision& decision, DecisionState state, std::string outcome, Moment now);
  // Undoes or escalates what did not help.
  void FollowUp(const RemedyDecision& in_vain, const RemedyFacts& facts, Moment now);
  void Fail(RemedyDecision& decision, const std::string& error, const RemedyFacts& facts,
            Moment now);
  // Looks whether anything can still come of the order under way.
  void FailIfHopeless(const RemedyFacts& facts, Moment now);

  // remedy_proposals.cc: advises what is due, and orders what may be done.
  RemedyActions Conclude(const RemedyFacts& facts, Moment now);
  void AdviseOn(StragglerCase& straggler, const RemedyFacts& facts, Moment now);
  void AdvisePlan(const RemedyFacts& facts, Moment now);
  void AskPerson(RemedyDecision about, Moment now);
  RemedyDecision NewDecision(RemedyKind kind, const RemedyFacts& facts) const;
  void Advise(RemedyDecision decision, Moment now);
  void WithdrawIf(const std::function<bool(const RemedyDecision&)>& matches, const std::string& why,
                  Moment now);
  void OrderAutomatically(const RemedyFacts& facts, Moment now);
  bool IsByAutomation(int64_t id) const;
  // The automation may order it, brakes aside.
  bool IsAutomatic(const RemedyDecision& decision) const;
  void Order(RemedyDecision& decision, Moment now);
  void DropOld();

  const RemedyOptions options_;
  StragglerMode mode_;
  std::vector<RemedyDecision> decisions_;  // By id.
  int64_t next_id_ = 1;

  // Not stored.
  Generation generation_{0};
  PlanEpoch epoch_{0};
  std::map<int, StragglerCase> cases_;
  std::map<int, StragglerCase> groups_;  // By peer group; those that have become slower.
  std::set<int> slow_;                   // Ranks, whether they persist or are suspect.
  std::optional<PlanWish> wish_;
  StepMeter recent_;                     // Of the present generation and epoch.
  StepMeter after_;                      // Of the check under way.
  std::vector<ComparedSteps> compared_;  // The same; oldest first.
  int64_t settling_ = 0;
  std::map<int, absl::Time> doubted_until_;             // Steady; by peer group.
  absl::Time hopeless_since_ = absl::InfiniteFuture();  // Steady; the order under way.
  absl::Time rests_until_ = absl::InfinitePast();       // Steady; the automation.
  absl::Time plan_rests_until_ = absl::InfinitePast();  // Steady; ladder and strategy.
  absl::Time now_ = absl::InfinitePast();               // Steady; of the latest call.
  int64_t ignored_ = 0;
  RemedyActions actions_;  // Of the call under way.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_POLICY_H_
