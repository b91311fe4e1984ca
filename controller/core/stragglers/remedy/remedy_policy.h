// Decides what is done about one job's stragglers, and checks whether it helped.
//
// Events come in; what is to be stored and done comes out. Whoever carries out an order reports
// what became of it. At most one order is under way, and none begins before the last one was
// checked. The rules, besides those of remedy_choice.h and ladder_planner.h:
//
//   - A verdict counts only for the job's present generation and plan version, and not if it rests
//   on
//     masked steps. A new generation or plan version withdraws all advice, except the undo of a
//     drain.
//   - A GROUP verdict does not blame a rank: advice about ranks of its peer group is withdrawn, and
//     nothing is done about them for `doubt`. A person is told when the slower group has cost the
//     job `ask_share` of its time and `tell_group_s` in all. Nobody is replaced while more than a
//     quarter of the ranks are slow at once; if they persist, a person is asked.
//   - A rank that is well again is left alone. While a node is slow, nothing is done about single
//     ranks of it; it is no longer slow when fewer than two of them are.
//   - The ladder changes only if no straggler is about to be replaced, two successive plans see a
//     gain (three to give a ladder up), and `ladder_window` has passed since the last change; the
//     newer plan's ladder is used. Undoing a change that did not help does not count as a change.
//     The same holds for the strategy of a job that leaves it to the controller, but six plans are
//     needed to give up one that gains nothing.
//   - By itself (kAuto; strategies in kAdvise, too) the policy acts only if no brake is on, and not
//     within `cool_down` of the end of an order, or of a check that ends badly.
//   - A swap that no longer has a spare, nor a slot for another, has failed after `doubt`.
//   - Outer steps are only advised, never ordered: where exchanges take `outer_share` of the steps
//     in two successive plans although no rank is slow. The advice is withdrawn when they take less
//     than `outer_keep_share`, or when a rank persists in being slow, and is not given again within
//     `pause`.
//   - What failed or did not help is not repeated for the same rank or node within `pause`. If
//     nothing else is possible, a person is asked.
//   - A ladder or strategy that did not help is taken back. So is the drain of a node, in whatever
//     generation the job is by then; by itself only if it was automatic, as people's holds are
//     theirs.
//
// The check: after `settling_steps`, steps are measured until it is certain whether they have
// become shorter by half of what was predicted (remedy_check.h), but at most `check_steps`. After
// that, or if something else changes the job meanwhile, the outcome stays open (UNCHECKED). Steps
// are compared with what they would have taken without the remedy, if known (OnComparedSteps), else
// with the steps before.
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
#include "controller/core/stragglers/ladder/outer_outlook.h"
#include "controller/core/stragglers/remedy/remedy.h"
#include "controller/core/stragglers/remedy/remedy_check.h"
#include "controller/core/stragglers/remedy/remedy_choice.h"

namespace paceline {

// How many of the newest ended decisions are kept.
inline constexpr size_t kDecisionsKept = 100;

struct RemedyOptions {
  RemedyCosts costs;
  absl::Duration cool_down = absl::Minutes(1);
  absl::Duration ladder_window = absl::Minutes(10);  // For strategies, too.
  absl::Duration pause = absl::Hours(1);
  absl::Duration doubt = absl::Minutes(1);
  absl::Duration order_timeout = absl::Minutes(15);
  absl::Duration check_timeout = absl::Hours(1);  // Longer for long steps: CheckTimeout.
  int64_t settling_steps = 20;
  int64_t min_check_steps = 100;
  int64_t check_steps = 1000;  // At most 1,000.
  // A person is asked about a straggler that cannot be helped if it costs this share of the time.
  double ask_share = 0.05;
  // A person is told of a group with as large a share when this many seconds were lost.
  double tell_group_s = 30;
  // Outer steps are advised from the first share of exchanges on, and until they take less than the
  // second; if steps/s are predicted to grow by this factor, and as many seconds to be saved.
  double outer_share = 0.3;
  double outer_keep_share = 0.2;
  double outer_speedup = 1.1;
  double outer_gain_s = 60;
};

// How long the decision may be checked: twice the time of as many steps as a check may take, and at
// least check_timeout.
absl::Duration CheckTimeout(const RemedyDecision& decision, const RemedyOptions& options);

// A verdict and its origin.
struct VerdictReport {
  Verdict verdict;
  NodeName node;  // The node that verdict.node stands for.
  Generation generation;
  PlanVersion plan_version;
  bool masked = false;  // Its steps are not typical.
};

// Steps of the job since the last window, without masked ones.
struct StepSpan {
  Generation generation;
  PlanVersion plan_version;
  int64_t first_step = 0;
  int64_t steps = 0;
  double seconds = 0;  // For all of them.
};

struct LadderReport {
  LadderPlan plan;
  Generation generation;
  PlanVersion plan_version;
};

struct StrategyReport {
  StrategyAdvice advice;
  Generation generation;
  PlanVersion plan_version;
};

struct OuterReport {
  OuterOutlook outlook;
  std::string advice;  // DescribeOuterSteps.
  Generation generation;
  PlanVersion plan_version;
};

// What is to be done after an event, in this order.
struct RemedyActions {
  std::vector<int64_t> store;    // Decisions that are new or have changed; ascending.
  std::vector<int64_t> forget;   // Too old, and no longer kept.
  std::optional<int64_t> order;  // A decision to be carried out.
};

class RemedyPolicy {
 public:
  RemedyPolicy(const RemedyOptions& options, StragglerMode mode);

  // Takes over what was stored, by id. Call it before anything else. Advice is withdrawn, as the
  // detector starts over, too; orders are still under way; checks start over.
  RemedyActions Restore(std::vector<RemedyDecision> decisions, Moment now);

  RemedyActions SetMode(StragglerMode mode, const RemedyFacts& facts, Moment now);
  RemedyActions OnVerdict(const VerdictReport& report, const RemedyFacts& facts, Moment now);
  RemedyActions OnStepTimes(const StepSpan& window, const RemedyFacts& facts, Moment now);
  // Steps while a remedy is being checked. Compared steps count for more than those measured
  // before.
  RemedyActions OnComparedSteps(const ComparedSteps& compared, const RemedyFacts& facts,
                                Moment now);
  RemedyActions OnLadderPlan(const LadderReport& report, const RemedyFacts& facts, Moment now);
  RemedyActions OnStrategyAdvice(const StrategyReport& report, const RemedyFacts& facts,
                                 Moment now);
  // With each new plan of a ladder or strategy, if the job exchanges without outer steps.
  RemedyActions OnOuterOutlook(const OuterReport& report, const RemedyFacts& facts, Moment now);

  // The order was carried out, and all ranks train by it. `paid_s`: what it cost the job; 0: not
  // known. If it is not under way, nothing changes.
  RemedyActions OnRemedyDone(int64_t id, double paid_s, const RemedyFacts& facts, Moment now);
  RemedyActions OnRemedyFailed(int64_t id, const std::string& error, const RemedyFacts& facts,
                               Moment now);
  // The job has ended: nothing more can be done or measured.
  RemedyActions OnJobEnded(Moment now);

  // Why the advice cannot be applied: ADVICE_NOT_FOUND, ADVICE_CLOSED, ADVICE_NOT_APPLICABLE,
  // REMEDY_IN_FLIGHT, REMEDY_IMPOSSIBLE.
  std::optional<Refusal> RefuseApply(int64_t id, const RemedyFacts& facts) const;
  // A person applies the advice, so brakes and pauses of the automation do not count. Requires:
  // RefuseApply has no objection.
  RemedyActions Apply(int64_t id, const std::string& by, const RemedyFacts& facts, Moment now);

  // Call it at NextDeadline, and when facts have changed.
  RemedyActions Tick(const RemedyFacts& facts, Moment now);
  // Steady; infinite: never.
  absl::Time NextDeadline() const;

  StragglerMode mode() const { return mode_; }
  // Sorted by id.
  const std::vector<RemedyDecision>& decisions() const { return decisions_; }
  const RemedyDecision* Find(int64_t id) const;
  // Persistent stragglers: ranks by their number, and nodes, besides their ranks, by -1 - number.
  const std::map<int, StragglerCase>& cases() const { return cases_; }
  // How many reports did not count: of another generation or plan version, masked, or nonsense.
  int64_t ignored() const { return ignored_; }

 private:
  // A change of the plan in which the planners see a gain, or no loss.
  struct PlanWish {
    RemedyDecision decision;  // The part that the latest plan determines.
    bool returns = false;     // It gives up what gains too little.
    double ratio = 1;         // Predicted step divided by the present one.
    int plans_needed = 0;
    int seen = 0;       // Successive plans that want the same.
    double lost_s = 0;  // Since the first of these plans.
  };

  bool IsPresent(Generation generation, PlanVersion plan_version, const RemedyFacts& facts) const;
  RemedyDecision* FindMutable(int64_t id);
  // The decision that is under way or being checked; null: none.
  RemedyDecision* UnderWay();

  // Does what a new generation or plan version requires.
  void Follow(const RemedyFacts& facts, Moment now);
  void SetState(RemedyDecision& decision, DecisionState state, Moment now);

  void TakeWish(std::optional<PlanWish> wish, RemedyKind kind, const std::string& reason,
                Moment now);

  // Defined in remedy_cases.cc.
  void TakeInStraggler(const VerdictReport& report, const RemedyFacts& facts, Moment now);
  void TakeInRecovery(const VerdictReport& report, Moment now);
  void TakeInGroup(const VerdictReport& report, Moment now);
  // Seconds lost from the first slow step to the verdict.
  double LostUntil(const Verdict& verdict) const;
  // Adds the loss by stragglers and slow groups during this time of steps.
  void AddLoss(double seconds);
  // Tells a person of the groups whose loss matters.
  void TellOfGroups(const RemedyFacts& facts, Moment now);
  bool HasNodeCase(int node) const;
  // How many ranks persist in being slow.
  int CountSlowOn(const NodeName& node) const;
  int CountPersistent() const;

  // Defined in remedy_outcome.cc.
  void MeasureCheck(const StepSpan& window, const RemedyFacts& facts, Moment now);
  // Ends the check if the effect is certain, or there were enough steps.
  void JudgeCheck(RemedyDecision& decision, RemedyEffect effect, int64_t steps,
                  const std::string& figures, const RemedyFacts& facts, Moment now);
  void EndCheck(RemedyDecision& decision, DecisionState state, std::string outcome, Moment now);
  // Undoes or escalates a remedy that did not help.
  void FollowUp(const RemedyDecision& in_vain, const RemedyFacts& facts, Moment now);
  void Fail(RemedyDecision& decision, const std::string& error, const RemedyFacts& facts,
            Moment now);
  // Fails the order under way if nothing can come of it any more.
  void FailIfHopeless(const RemedyFacts& facts, Moment now);

  // Defined in remedy_proposals.cc: advises what is due, and orders what may be done.
  RemedyActions Conclude(const RemedyFacts& facts, Moment now);
  void AdviseOn(StragglerCase& straggler, const RemedyFacts& facts, Moment now);
  void AdvisePlan(const RemedyFacts& facts, Moment now);
  void AdviseOuterSteps(const OuterReport& report, const RemedyFacts& facts, Moment now);
  void AskPerson(RemedyDecision about, Moment now);
  RemedyDecision NewDecision(RemedyKind kind, const RemedyFacts& facts) const;
  void Advise(RemedyDecision decision, Moment now);
  void WithdrawIf(const std::function<bool(const RemedyDecision&)>& matches, const std::string& why,
                  Moment now);
  void OrderAutomatically(const RemedyFacts& facts, Moment now);
  bool IsByAutomation(int64_t id) const;
  // Whether the automation may order it, apart from brakes.
  bool IsAutomatic(const RemedyDecision& decision) const;
  void Order(RemedyDecision& decision, Moment now);
  void DropOld();

  const RemedyOptions options_;
  StragglerMode mode_;
  std::vector<RemedyDecision> decisions_;  // By id.
  int64_t next_id_ = 1;

  // Not stored.
  Generation generation_{0};
  PlanVersion plan_version_{0};
  std::map<int, StragglerCase> cases_;
  std::map<int, StragglerCase> groups_;  // By peer group; only those that have become slower.
  std::set<int> slow_;                   // Ranks that persist or are suspect.
  std::optional<PlanWish> wish_;
  int outer_seen_ = 0;                   // Successive looks that see a gain in outer steps.
  StepMeter recent_;                     // For the present generation and plan version.
  StepMeter after_;                      // For the check under way.
  std::vector<ComparedSteps> compared_;  // For the check under way; oldest first.
  int64_t settling_ = 0;
  std::map<int, absl::Time> doubted_until_;              // Steady; by peer group.
  absl::Time hopeless_since_ = absl::InfiniteFuture();   // Steady; for the order under way.
  absl::Time rests_until_ = absl::InfinitePast();        // Steady; for the automation.
  absl::Time plan_rests_until_ = absl::InfinitePast();   // Steady; for ladder and strategy.
  absl::Time outer_rests_until_ = absl::InfinitePast();  // Steady; for advice of outer steps.
  absl::Time now_ = absl::InfinitePast();                // Steady; time of the latest call.
  int64_t ignored_ = 0;
  RemedyActions actions_;  // From the call under way.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_POLICY_H_
