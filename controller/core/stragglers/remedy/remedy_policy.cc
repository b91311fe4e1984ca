#include "controller/core/stragglers/remedy/remedy_policy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

// Longer steps are nonsense.
constexpr double kMaxStepS = 3600;
// How many successive plans must agree on a change. Giving up what gains nothing saves no time, so
// there is no hurry, least of all where stalls are rare and may come back.
constexpr int kPlansForChange = 2;
constexpr int kPlansForSynchronousLadder = 3;
constexpr int kPlansForReturn = 6;

template <typename Decisions>
auto FindIn(Decisions& decisions, int64_t id) -> decltype(decisions.data()) {
  for (auto& decision : decisions) {
    if (decision.id == id) return &decision;
  }
  return nullptr;
}

bool IsSane(const Verdict& verdict, const RemedyFacts& facts) {
  const bool numbers = verdict.lost_share >= 0 && verdict.lost_share <= 1 &&  // No NaN.
                       verdict.slowdown > 0 && std::isfinite(verdict.slowdown) &&
                       verdict.since_step <= verdict.step;
  if (!numbers || verdict.rank >= facts.ranks) return false;
  switch (verdict.kind) {
    case VerdictKind::kNode:
      return verdict.node >= 0 && verdict.rank < 0;
    case VerdictKind::kGroup:
      return verdict.rank < 0;
    default:
      return verdict.rank >= 0;
  }
}

}  // namespace

RemedyPolicy::RemedyPolicy(const RemedyOptions& options, StragglerMode mode)
    : options_(options), mode_(mode) {}

RemedyActions RemedyPolicy::Restore(std::vector<RemedyDecision> decisions, Moment now) {
  decisions_ = std::move(decisions);
  for (RemedyDecision& decision : decisions_) {
    decision.since = now.steady;
    next_id_ = std::max(next_id_, decision.id + 1);
    const bool acted = !IsOpenAdvice(decision) && decision.state != DecisionState::kWithdrawn;
    if (acted) rests_until_ = now.steady + options_.cool_down;
    // However long ago that was: the wall clock may have been changed.
    if (acted && IsOfPlan(decision.kind)) {
      plan_rests_until_ = now.steady + options_.ladder_window;
    }
    if (IsChecked(decision)) settling_ = options_.settling_steps;
  }
  WithdrawIf([](const RemedyDecision& d) { return d.undoes == 0; },
             "the controller was started again", now);
  return std::exchange(actions_, {});
}

RemedyActions RemedyPolicy::SetMode(StragglerMode mode, const RemedyFacts& facts, Moment now) {
  mode_ = mode;
  if (mode == StragglerMode::kOff) {
    WithdrawIf([](const RemedyDecision&) { return true; }, "stragglers are left alone (mode off)",
               now);
  }
  return Tick(facts, now);
}

RemedyActions RemedyPolicy::OnVerdict(const VerdictReport& report, const RemedyFacts& facts,
                                      Moment now) {
  Follow(facts, now);
  if (report.masked || !IsPresent(report.generation, report.plan_version, facts) ||
      !IsSane(report.verdict, facts)) {
    ++ignored_;
    return Conclude(facts, now);
  }
  switch (report.verdict.kind) {
    case VerdictKind::kSuspect:
      slow_.insert(report.verdict.rank);
      break;
    case VerdictKind::kTransient:
    case VerdictKind::kRecovered:
      slow_.erase(report.verdict.rank);
      TakeInRecovery(report, now);
      break;
    case VerdictKind::kPersistent:
      slow_.insert(report.verdict.rank);
      TakeInStraggler(report, facts, now);
      break;
    case VerdictKind::kNode:
      TakeInStraggler(report, facts, now);
      break;
    case VerdictKind::kGroup:
      TakeInGroup(report, now);
      break;
  }
  return Conclude(facts, now);
}

RemedyActions RemedyPolicy::OnStepTimes(const StepSpan& window, const RemedyFacts& facts,
                                        Moment now) {
  Follow(facts, now);
  if (!IsPresent(window.generation, window.plan_version, facts) || window.steps <= 0 ||
      !(window.seconds >= 0 && window.seconds <= kMaxStepS * static_cast<double>(window.steps))) {
    ++ignored_;
    return Conclude(facts, now);
  }
  recent_.Add(window.first_step, window.steps, window.seconds);
  AddLoss(window.seconds);
  if (wish_.has_value()) wish_->lost_s += window.seconds * std::max(0.0, 1 - wish_->ratio);
  MeasureCheck(window, facts, now);
  return Conclude(facts, now);
}

RemedyActions RemedyPolicy::OnLadderPlan(const LadderReport& report, const RemedyFacts& facts,
                                         Moment now) {
  Follow(facts, now);
  if (!IsPresent(report.generation, report.plan_version, facts)) {
    ++ignored_;
    return Conclude(facts, now);
  }
  const LadderPlan& plan = report.plan;
  std::optional<PlanWish> wish;
  if (plan.advice == LadderAdvice::kChange || plan.advice == LadderAdvice::kSynchronous) {
    wish = PlanWish{};
    wish->decision.kind = RemedyKind::kLadder;
    wish->decision.plan = plan;
    wish->decision.ladder = plan.ladder;
    wish->decision.former = plan.current.ladder;
    wish->decision.reason = plan.reason;
    wish->returns = plan.advice == LadderAdvice::kSynchronous;
    wish->ratio = plan.step_s / plan.current.step_s;
    wish->plans_needed = wish->returns ? kPlansForSynchronousLadder : kPlansForChange;
  }
  TakeWish(std::move(wish), RemedyKind::kLadder, plan.reason, now);
  return Conclude(facts, now);
}

RemedyActions RemedyPolicy::OnStrategyAdvice(const StrategyReport& report, const RemedyFacts& facts,
                                             Moment now) {
  Follow(facts, now);
  if (!IsPresent(report.generation, report.plan_version, facts)) {
    ++ignored_;
    return Conclude(facts, now);
  }
  const StrategyAdvice& advice = report.advice;
  std::optional<PlanWish> wish;
  if (advice.move == StrategyMove::kChange || advice.move == StrategyMove::kSynchronous) {
    wish = PlanWish{};
    wish->decision.kind = RemedyKind::kStrategy;
    wish->decision.strategy_advice = advice;
    wish->decision.strategy = advice.choice;
    wish->decision.former_strategy = advice.current;
    wish->decision.reason = advice.reason;
    wish->ratio = advice.step_s / advice.current_s;
    // A mode that was chosen for its accuracy may be slower.
    wish->returns = advice.move == StrategyMove::kSynchronous || wish->ratio >= 1;
    wish->plans_needed = wish->returns ? kPlansForReturn : kPlansForChange;
  }
  TakeWish(std::move(wish), RemedyKind::kStrategy, advice.reason, now);
  return Conclude(facts, now);
}

RemedyActions RemedyPolicy::OnOuterOutlook(const OuterReport& report, const RemedyFacts& facts,
                                           Moment now) {
  Follow(facts, now);
  if (IsPresent(report.generation, report.plan_version, facts)) {
    AdviseOuterSteps(report, facts, now);
  } else {
    ++ignored_;
  }
  return Conclude(facts, now);
}

void RemedyPolicy::TakeWish(std::optional<PlanWish> wish, RemedyKind kind,
                            const std::string& reason, Moment now) {
  // Ladders may differ a little from plan to plan.
  const bool same = wish_.has_value() && wish.has_value() && wish_->returns == wish->returns &&
                    wish_->decision.strategy == wish->decision.strategy;
  if (same) {
    wish->seen = wish_->seen;
    wish->lost_s = wish_->lost_s;
  } else {
    WithdrawIf([&](const auto& d) { return d.kind == kind && d.undoes == 0; }, reason, now);
  }
  wish_ = std::move(wish);
  if (wish_.has_value()) ++wish_->seen;
}

std::optional<Refusal> RemedyPolicy::RefuseApply(int64_t id, const RemedyFacts& facts) const {
  const std::string name = absl::StrCat("advice ", id);
  const RemedyDecision* decision = Find(id);
  if (decision == nullptr) {
    return Refusal{
        Refusal::Kind::kArgument, "ADVICE_NOT_FOUND",
        absl::StrCat(name, " does not exist: `paceline job advise` lists those that do")};
  }
  if (!IsOpenAdvice(*decision)) {
    return Refusal{Refusal::Kind::kState, "ADVICE_CLOSED",
                   absl::StrCat(name, " is ", NameOf(decision->state),
                                decision->outcome.empty() ? "" : ": ", decision->outcome)};
  }
  if (IsForPeople(decision->kind)) {
    return Refusal{Refusal::Kind::kArgument, "ADVICE_NOT_APPLICABLE",
                   absl::StrCat(name, " is for people: ", decision->reason)};
  }
  if (!OutlivesGenerations(*decision) &&
      !IsPresent(decision->generation, decision->plan_version, facts)) {
    return Refusal{
        Refusal::Kind::kState, "ADVICE_CLOSED",
        absl::StrCat(name, " is of generation ", decision->generation.value(), " and plan version ",
                     decision->plan_version.value(), ", the job has ", facts.generation.value(),
                     " and ", facts.plan_version.value())};
  }
  for (const RemedyDecision& other : decisions_) {
    if (!IsInFlight(other)) continue;
    return Refusal{Refusal::Kind::kState, "REMEDY_IN_FLIGHT",
                   absl::StrCat("decision ", other.id, " (", DescribeRemedy(other),
                                ") is being carried out: try again when it is done")};
  }
  const std::string why =
      WhyImpossible(decision->kind, decision->undoes > 0, decision->node, facts);
  if (why.empty()) return std::nullopt;
  return Refusal{Refusal::Kind::kState, "REMEDY_IMPOSSIBLE",
                 absl::StrCat(name, " (", DescribeRemedy(*decision), "): ", why)};
}

RemedyActions RemedyPolicy::Apply(int64_t id, const std::string& by, const RemedyFacts& facts,
                                  Moment now) {
  Follow(facts, now);
  RemedyDecision* under_way = UnderWay();
  if (under_way != nullptr) {
    EndCheck(*under_way, DecisionState::kUnchecked,
             absl::StrCat("overtaken by decision ", id, " before it was certain"), now);
  }
  RemedyDecision& decision = *FindMutable(id);
  decision.by = by;
  Order(decision, now);
  return Conclude(facts, now);
}

absl::Time RemedyPolicy::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  const auto consider = [&](absl::Time due) {
    if (due > now_) next = std::min(next, due);
  };
  for (const RemedyDecision& decision : decisions_) {
    // Even if it has passed, as only Tick acts on it.
    if (IsInFlight(decision)) next = std::min(next, decision.since + options_.order_timeout);
    if (IsChecked(decision)) {
      next = std::min(next, decision.since + CheckTimeout(decision, options_));
    }
    if (IsOpenAdvice(decision) && IsAutomatic(decision)) consider(rests_until_);
  }
  for (const auto& [key, straggler] : cases_) consider(straggler.held_until);
  if (wish_.has_value()) consider(plan_rests_until_);
  consider(hopeless_since_ + options_.doubt);
  return next;
}

const RemedyDecision* RemedyPolicy::Find(int64_t id) const { return FindIn(decisions_, id); }

RemedyDecision* RemedyPolicy::FindMutable(int64_t id) { return FindIn(decisions_, id); }

RemedyDecision* RemedyPolicy::UnderWay() {
  const auto found =
      std::find_if(decisions_.begin(), decisions_.end(),
                   [](const RemedyDecision& d) { return IsInFlight(d) || IsChecked(d); });
  return found == decisions_.end() ? nullptr : &*found;
}

bool RemedyPolicy::IsPresent(Generation generation, PlanVersion plan_version,
                             const RemedyFacts& facts) const {
  return generation == facts.generation && plan_version == facts.plan_version;
}

void RemedyPolicy::Follow(const RemedyFacts& facts, Moment now) {
  now_ = now.steady;
  if (IsPresent(generation_, plan_version_, facts)) return;
  generation_ = facts.generation;
  plan_version_ = facts.plan_version;
  cases_.clear();
  groups_.clear();
  slow_.clear();
  wish_.reset();
  outer_seen_ = 0;
  recent_.Clear();
  doubted_until_.clear();
  const std::string what =
      absl::StrCat("generation ", facts.generation.value(), " with plan version ",
                   facts.plan_version.value(), " has begun");
  WithdrawIf(
      [&](const auto& d) {
        return !OutlivesGenerations(d) && !IsPresent(d.generation, d.plan_version, facts);
      },
      what, now);
  RemedyDecision* decision = UnderWay();
  if (decision != nullptr && IsChecked(*decision) &&
      !IsPresent(decision->done_generation, decision->done_plan_version, facts)) {
    EndCheck(*decision, DecisionState::kUnchecked, what, now);
  }
}

void RemedyPolicy::SetState(RemedyDecision& decision, DecisionState state, Moment now) {
  decision.state = state;
  decision.since = now.steady;
  const bool is_over = !IsOpenAdvice(decision) && !IsInFlight(decision) && !IsChecked(decision);
  if (is_over) decision.ended = now.wall;
  actions_.store.push_back(decision.id);
}

}  // namespace paceline
