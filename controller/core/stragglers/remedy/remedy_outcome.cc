// What becomes of the policy's orders (remedy_policy.h): done or failed, checked, and followed up.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"

namespace paceline {

absl::Duration CheckTimeout(const RemedyDecision& decision, const RemedyOptions& options) {
  const auto steps = static_cast<double>(options.settling_steps + options.check_steps);
  return std::max(options.check_timeout, absl::Seconds(2 * steps * decision.before.seconds));
}

RemedyActions RemedyPolicy::OnRemedyDone(int64_t id, double paid_s, const RemedyFacts& facts,
                                         Moment now) {
  Follow(facts, now);
  RemedyDecision* decision = FindMutable(id);
  if (decision == nullptr || !IsInFlight(*decision)) {
    ++ignored_;
    return Conclude(facts, now);
  }
  if (paid_s > 0 && std::isfinite(paid_s)) decision->paid_s = paid_s;
  decision->done_generation = facts.generation;
  decision->done_plan_version = facts.plan_version;
  rests_until_ = now.steady + options_.cool_down;
  if (decision->undoes > 0) {
    decision->outcome = "done";
    SetState(*decision, DecisionState::kDone, now);
    return Conclude(facts, now);
  }
  SetState(*decision, DecisionState::kChecking, now);
  after_.Clear();
  compared_.clear();
  settling_ = options_.settling_steps;
  return Conclude(facts, now);
}

RemedyActions RemedyPolicy::OnRemedyFailed(int64_t id, const std::string& error,
                                           const RemedyFacts& facts, Moment now) {
  Follow(facts, now);
  RemedyDecision* decision = FindMutable(id);
  if (decision == nullptr || !IsInFlight(*decision)) {
    ++ignored_;
  } else {
    Fail(*decision, error, facts, now);
  }
  return Conclude(facts, now);
}

RemedyActions RemedyPolicy::OnJobEnded(Moment now) {
  now_ = now.steady;
  const char* const what = "the job has ended";
  cases_.clear();
  groups_.clear();
  wish_.reset();
  WithdrawIf([](const RemedyDecision&) { return true; }, what, now);
  RemedyDecision* decision = UnderWay();
  if (decision != nullptr && IsInFlight(*decision)) {
    decision->outcome = what;
    SetState(*decision, DecisionState::kFailed, now);
  } else if (decision != nullptr) {
    EndCheck(*decision, DecisionState::kUnchecked, absl::StrCat(what, " before it was certain"),
             now);
  }
  DropOld();
  return std::exchange(actions_, {});
}

RemedyActions RemedyPolicy::Tick(const RemedyFacts& facts, Moment now) {
  Follow(facts, now);
  RemedyDecision* decision = UnderWay();
  if (decision != nullptr && IsInFlight(*decision) &&
      now.steady >= decision->since + options_.order_timeout) {
    Fail(*decision,
         absl::StrCat("nothing was heard of it for ", absl::FormatDuration(options_.order_timeout)),
         facts, now);
  } else if (decision != nullptr && IsChecked(*decision) &&
             now.steady >= decision->since + CheckTimeout(*decision, options_)) {
    EndCheck(*decision, DecisionState::kUnchecked,
             absl::StrCat("only ", after_.steps(), " steps in ",
                          absl::FormatDuration(CheckTimeout(*decision, options_))),
             now);
  }
  return Conclude(facts, now);
}

void RemedyPolicy::MeasureCheck(const StepSpan& window, const RemedyFacts& facts, Moment now) {
  RemedyDecision* decision = UnderWay();
  if (decision == nullptr || !IsChecked(*decision)) return;
  if (settling_ > 0) {
    settling_ -= window.steps;
    return;
  }
  after_.Add(window.first_step, window.steps, window.seconds);
  const auto after = after_.Mean();
  if (!after.has_value() || after_.steps() < options_.min_check_steps) return;
  if (!compared_.empty()) return;
  decision->measured_s = after->seconds;
  JudgeCheck(*decision, CheckRemedy(decision->before, decision->predicted_s, *after),
             after_.steps(),
             absl::StrFormat("%.4g s a step over %d steps; %.4g s predicted, %.4g s before",
                             after->seconds, after_.steps(), decision->predicted_s,
                             decision->before.seconds),
             facts, now);
}

RemedyActions RemedyPolicy::OnComparedSteps(const ComparedSteps& compared, const RemedyFacts& facts,
                                            Moment now) {
  Follow(facts, now);
  RemedyDecision* decision = UnderWay();
  const bool is_sane = compared.steps > 0 && std::isfinite(compared.with_s) &&
                       std::isfinite(compared.without_s) && compared.with_s > 0 &&
                       compared.without_s > 0;
  if (decision == nullptr || !IsChecked(*decision) || !is_sane) {
    ++ignored_;
    return Conclude(facts, now);
  }
  if (settling_ > 0) return Conclude(facts, now);
  compared_.push_back(compared);
  int64_t steps = 0;
  double with_s = 0;
  double without_s = 0;
  for (const ComparedSteps& one : compared_) {
    steps += one.steps;
    with_s += one.with_s;
    without_s += one.without_s;
  }
  if (steps < options_.min_check_steps) return Conclude(facts, now);
  decision->measured_s = with_s / static_cast<double>(steps);
  decision->without_s = without_s / static_cast<double>(steps);
  const double predicted_share = decision->predicted_s / decision->before.seconds;
  JudgeCheck(*decision, CheckPairs(compared_, predicted_share), steps,
             absl::StrFormat("%.4g s a step over %d steps, which would have taken %.4g s without; "
                             "%.4g s of %.4g s were predicted",
                             decision->measured_s, steps, decision->without_s,
                             decision->predicted_s, decision->before.seconds),
             facts, now);
  return Conclude(facts, now);
}

void RemedyPolicy::JudgeCheck(RemedyDecision& decision, RemedyEffect effect, int64_t steps,
                              const std::string& figures, const RemedyFacts& facts, Moment now) {
  if (effect == RemedyEffect::kHelped) {
    EndCheck(decision, DecisionState::kHelped, figures, now);
  } else if (effect == RemedyEffect::kDidNotHelp) {
    EndCheck(decision, DecisionState::kDidNotHelp, figures, now);
    FollowUp(decision, facts, now);
  } else if (steps >= options_.check_steps) {
    EndCheck(decision, DecisionState::kUnchecked, absl::StrCat("not certain: ", figures), now);
  }
}

void RemedyPolicy::EndCheck(RemedyDecision& decision, DecisionState state, std::string outcome,
                            Moment now) {
  decision.outcome = std::move(outcome);
  if (state == DecisionState::kDidNotHelp) rests_until_ = now.steady + options_.cool_down;
  SetState(decision, state, now);
}

void RemedyPolicy::FollowUp(const RemedyDecision& in_vain, const RemedyFacts& facts, Moment now) {
  if (mode_ == StragglerMode::kOff) return;
  const bool is_of_plan = IsOfPlan(in_vain.kind);
  RemedyDecision undo = NewDecision(in_vain.kind, facts);
  undo.undoes = in_vain.id;
  undo.node = in_vain.node;
  undo.ladder = in_vain.former;
  undo.former = in_vain.ladder;
  undo.strategy = in_vain.former_strategy;
  undo.former_strategy = in_vain.strategy;
  undo.before.seconds = in_vain.measured_s;
  undo.predicted_s = in_vain.before.seconds;
  undo.reason = absl::StrCat("decision ", in_vain.id, " did not help: ", in_vain.outcome);
  RemedyDecision question = NewDecision(RemedyKind::kAskPerson, facts);
  question.rank = in_vain.rank;
  question.node = in_vain.node;
  question.verdict = in_vain.verdict;
  question.reason = undo.reason;
  // Advise may move the decisions, so `in_vain` must not be used from here on.
  if (is_of_plan || undo.kind == RemedyKind::kDrain) Advise(std::move(undo), now);
  if (!is_of_plan) AskPerson(std::move(question), now);
}

void RemedyPolicy::Fail(RemedyDecision& decision, const std::string& error,
                        const RemedyFacts& facts, Moment now) {
  decision.outcome = error;
  rests_until_ = now.steady + options_.cool_down;
  SetState(decision, DecisionState::kFailed, now);
  if (decision.undoes == 0 || mode_ == StragglerMode::kOff) return;
  RemedyDecision question = NewDecision(RemedyKind::kAskPerson, facts);
  question.node = decision.node;
  question.reason = absl::StrCat("decision ", decision.id, " (", DescribeRemedy(decision),
                                 ") has failed: ", error);
  AskPerson(std::move(question), now);
}

void RemedyPolicy::FailIfHopeless(const RemedyFacts& facts, Moment now) {
  RemedyDecision* decision = UnderWay();
  bool is_hopeless = false;
  if (decision != nullptr && IsInFlight(*decision) && decision->kind == RemedyKind::kHotSwap &&
      facts.running) {
    const RemedyNode there = facts.node(decision->node);
    is_hopeless = facts.spares + there.slots_elsewhere < there.ranks;
  }
  hopeless_since_ = is_hopeless ? std::min(hopeless_since_, now.steady) : absl::InfiniteFuture();
  if (!is_hopeless || now.steady < hopeless_since_ + options_.doubt) return;
  hopeless_since_ = absl::InfiniteFuture();
  Fail(*decision, "there is no spare any more, and no slot for another", facts, now);
}

}  // namespace paceline
