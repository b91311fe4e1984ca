// What the policy advises and orders (remedy_policy.h) after an event was taken in.
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"

namespace paceline {
namespace {

// How many successive looks must see a gain in outer steps.
constexpr int kLooksForOuterSteps = 2;

bool IsQuestion(const RemedyDecision& decision) { return decision.kind == RemedyKind::kAskPerson; }

bool IsOpenOuterStep(const RemedyDecision& decision) {
  return IsOpenAdvice(decision) && decision.kind == RemedyKind::kOuterStep;
}

// Whether there are more than one, and more than a quarter.
bool IsMany(int slow, const RemedyFacts& facts) { return slow > 1 && 4 * slow > facts.ranks; }

void SetPresent(const RemedyFacts& facts, RemedyDecision* decision) {
  decision->generation = facts.generation;
  decision->plan_version = facts.plan_version;
  decision->step = facts.step;
}

void SetSubject(const StragglerCase& straggler, RemedyDecision* decision) {
  decision->step = straggler.verdict.step;
  decision->rank = straggler.verdict.rank;
  decision->node = straggler.node;
  decision->verdict = straggler.verdict;
  decision->lost_s = straggler.lost_s;
}

std::string Describe(const StragglerCase& straggler) {
  const Verdict& verdict = straggler.verdict;
  const std::string who = verdict.rank >= 0
                              ? absl::StrCat("rank ", verdict.rank, " on ", straggler.node.value())
                              : straggler.node.value();
  return absl::StrFormat(
      "%s takes %.2f x (%.2f-%.2f) the time of its peers since step %d: %.0f %% of the job's time, "
      "%.3g s so far",
      who, verdict.slowdown, verdict.slowdown_low, verdict.slowdown_high, verdict.since_step,
      100 * verdict.lost_share, straggler.lost_s);
}

}  // namespace

RemedyActions RemedyPolicy::Conclude(const RemedyFacts& facts, Moment now) {
  FailIfHopeless(facts, now);
  if (mode_ != StragglerMode::kOff && facts.running) {
    for (auto& [key, straggler] : cases_) AdviseOn(straggler, facts, now);
    TellOfGroups(facts, now);
    AdvisePlan(facts, now);
    OrderAutomatically(facts, now);
  }
  DropOld();
  std::vector<int64_t>& store = actions_.store;
  std::sort(store.begin(), store.end());
  store.erase(std::unique(store.begin(), store.end()), store.end());
  return std::exchange(actions_, {});
}

void RemedyPolicy::AdviseOn(StragglerCase& straggler, const RemedyFacts& facts, Moment now) {
  const Verdict& verdict = straggler.verdict;
  const auto before = recent_.Mean(verdict.since_step);
  straggler.is_pending = false;
  if (verdict.rank >= 0 && HasNodeCase(verdict.node)) return;
  if (now.steady < straggler.held_until || !before.has_value() || before->seconds <= 0) return;
  const auto is_about = [&](const RemedyDecision& d) {
    return d.undoes == 0 && !IsOfPlan(d.kind) && d.rank == verdict.rank && d.node == straggler.node;
  };
  const RemedyDecision* under_way = UnderWay();
  if (under_way != nullptr && is_about(*under_way)) return;

  RemedyDecision decision = NewDecision(RemedyKind::kAskPerson, facts);
  SetSubject(straggler, &decision);
  decision.before = *before;
  decision.predicted_s = before->seconds;
  RemedyChoice choice = WeighRemedies(straggler, facts, *before, options_.costs, decisions_,
                                      now.steady, options_.pause);
  const int persistent = CountPersistent();
  const bool many_persist = IsMany(persistent, facts);
  const bool many = many_persist || IsMany(static_cast<int>(slow_.size()), facts);
  if (many) {
    choice.options.clear();
    choice.obstacles = absl::StrCat(persistent, " stragglers of ", facts.ranks, " ranks");
  }
  WithdrawIf(
      [&](const RemedyDecision& d) {
        const auto& options = choice.options;
        const bool is_possible = IsQuestion(d)
                                     ? options.empty()
                                     : std::any_of(options.begin(), options.end(),
                                                   [&](const auto& o) { return o.kind == d.kind; });
        return is_about(d) && !is_possible;
      },
      many ? "too many ranks are slow at once" : "it is no longer what there is to do", now);
  if (many && !many_persist) return;
  if (choice.options.empty()) {
    if (verdict.lost_share < options_.ask_share || straggler.lost_s < options_.costs.cold_start_s) {
      return;
    }
    decision.reason = absl::StrCat(Describe(straggler), "; ", choice.obstacles);
    AskPerson(std::move(decision), now);
    return;
  }
  const RemedyOption best = choice.options.front();
  straggler.is_pending = best.total_s < choice.nothing_s;
  const bool is_advised =
      std::any_of(decisions_.begin(), decisions_.end(),
                  [&](const RemedyDecision& d) { return IsOpenAdvice(d) && is_about(d); });
  if (is_advised || !straggler.is_pending || straggler.lost_s < best.cost_s) return;
  decision.kind = best.kind;
  decision.options = std::move(choice.options);
  decision.cost_s = best.cost_s;
  decision.predicted_s = best.step_s;
  decision.reason = absl::StrFormat("%s; this costs %.3g s, and to do nothing %.3g s until the end",
                                    Describe(straggler), best.total_s, choice.nothing_s);
  Advise(std::move(decision), now);
}

void RemedyPolicy::AdvisePlan(const RemedyFacts& facts, Moment now) {
  if (!wish_.has_value() || UnderWay() != nullptr) return;
  const bool is_doubted = std::any_of(doubted_until_.begin(), doubted_until_.end(),
                                      [&](const auto& group) { return now.steady < group.second; });
  // In other modes the person who is asked may decide otherwise.
  const bool waits =
      mode_ == StragglerMode::kAuto &&
      std::any_of(cases_.begin(), cases_.end(), [](const auto& c) { return c.second.is_pending; });
  const auto before = recent_.Mean();
  if (is_doubted || waits || !before.has_value() || before->seconds <= 0) return;

  const RemedyKind kind = wish_->decision.kind;
  RemedyDecision decision = wish_->decision;
  SetPresent(facts, &decision);
  decision.before = *before;
  decision.lost_s = wish_->lost_s;
  decision.cost_s = CostOf(kind, /*cold=*/false, before->seconds, options_.costs, decisions_);
  decision.predicted_s = before->seconds * wish_->ratio;
  const double gain_s = (before->seconds - decision.predicted_s) *
                        static_cast<double>(std::max<int64_t>(0, facts.steps_left));
  decision.options = {{kind, decision.cost_s, decision.predicted_s, decision.cost_s}};
  const bool pays = wish_->lost_s >= decision.cost_s && gain_s > decision.cost_s;
  const bool is_due = wish_->seen >= wish_->plans_needed && (wish_->returns || pays);
  const auto is_advised = [&](const RemedyDecision& d) {
    return IsOpenAdvice(d) && d.kind == kind;
  };
  if (!is_due || now.steady < plan_rests_until_ ||
      IsBlocked(kind, -1, NodeName(), decisions_, now.steady, options_.pause) ||
      std::any_of(decisions_.begin(), decisions_.end(), is_advised)) {
    return;
  }
  if (kind == RemedyKind::kLadder && !facts.has_ladder) {
    decision.kind = RemedyKind::kAskPerson;
    absl::StrAppend(&decision.reason,
                    "; its strategy has no ladder: submit it with strategy hsgd to have one");
    AskPerson(std::move(decision), now);
  } else if (!facts.plan_pending) {
    Advise(std::move(decision), now);
  }
}

void RemedyPolicy::AdviseOuterSteps(const OuterReport& report, const RemedyFacts& facts,
                                    Moment now) {
  if (mode_ == StragglerMode::kOff || !facts.running) return;
  const OuterOutlook& outlook = report.outlook;
  const bool is_open = std::any_of(decisions_.begin(), decisions_.end(), IsOpenOuterStep);
  const double share = outlook.today.share();
  const bool gains = share >= (is_open ? options_.outer_keep_share : options_.outer_share) &&
                     outlook.speedup() >= options_.outer_speedup;
  outer_seen_ = gains ? outer_seen_ + 1 : 0;
  if (is_open) {
    if (gains && cases_.empty()) return;
    const std::string why = cases_.empty()
                                ? absl::StrFormat(
                                      "%.0f %% of a step is exchange, and outer steps would make "
                                      "%.2f x the steps/s",
                                      100 * share, outlook.speedup())
                                : "a rank is slow, for which others wait";
    WithdrawIf(IsOpenOuterStep, why, now);
    outer_rests_until_ = now.steady + options_.pause;
    return;
  }
  const auto before = recent_.Mean();
  const bool may_be_slow = !slow_.empty() || !cases_.empty();
  if (outer_seen_ < kLooksForOuterSteps || may_be_slow || now.steady < outer_rests_until_ ||
      UnderWay() != nullptr || !before.has_value() || before->seconds <= 0) {
    return;
  }
  RemedyDecision decision = NewDecision(RemedyKind::kOuterStep, facts);
  decision.before = *before;
  decision.predicted_s = before->seconds / outlook.speedup();
  const double gain_s = (before->seconds - decision.predicted_s) *
                        static_cast<double>(std::max<int64_t>(0, facts.steps_left));
  if (gain_s < options_.outer_gain_s) return;
  decision.ladder = {{outlook.period, LadderScope::kAll, 0, false}};
  decision.reason = report.advice;
  Advise(std::move(decision), now);
}

void RemedyPolicy::AskPerson(RemedyDecision about, Moment now) {
  const bool was_asked =
      std::any_of(decisions_.begin(), decisions_.end(), [&](const RemedyDecision& d) {
        return IsQuestion(d) && d.rank == about.rank && d.node == about.node &&
               d.verdict.kind == about.verdict.kind &&
               d.verdict.peer_group == about.verdict.peer_group &&
               (IsOpenAdvice(d) || now.steady - d.since < options_.pause);
      });
  if (!was_asked) Advise(std::move(about), now);
}

RemedyDecision RemedyPolicy::NewDecision(RemedyKind kind, const RemedyFacts& facts) const {
  RemedyDecision decision;
  decision.kind = kind;
  SetPresent(facts, &decision);
  return decision;
}

void RemedyPolicy::Advise(RemedyDecision decision, Moment now) {
  decision.id = next_id_++;
  decision.made = now.wall;
  decisions_.push_back(std::move(decision));
  SetState(decisions_.back(), DecisionState::kAdvised, now);
}

void RemedyPolicy::WithdrawIf(const std::function<bool(const RemedyDecision&)>& matches,
                              const std::string& why, Moment now) {
  for (RemedyDecision& decision : decisions_) {
    if (!IsOpenAdvice(decision) || !matches(decision)) continue;
    decision.outcome = why;
    SetState(decision, DecisionState::kWithdrawn, now);
  }
}

void RemedyPolicy::OrderAutomatically(const RemedyFacts& facts, Moment now) {
  if (!facts.brake.empty() || UnderWay() != nullptr) return;
  RemedyDecision* next = nullptr;
  for (RemedyDecision& decision : decisions_) {
    const bool is_undo = decision.undoes > 0;
    if (!IsOpenAdvice(decision) || IsQuestion(decision) || !IsAutomatic(decision) ||
        (!is_undo && now.steady < rests_until_) ||
        !WhyImpossible(decision.kind, is_undo, decision.node, facts).empty() ||
        (OutlivesGenerations(decision) && !IsByAutomation(decision.undoes))) {
      continue;
    }
    const bool drains = decision.kind == RemedyKind::kDrain && !is_undo;
    if (drains && !facts.node(decision.node).brake.empty()) continue;
    if (next == nullptr || (is_undo && next->undoes == 0)) next = &decision;
  }
  if (next == nullptr) return;
  next->automatic = true;
  Order(*next, now);
}

bool RemedyPolicy::IsByAutomation(int64_t id) const {
  const RemedyDecision* decision = Find(id);
  return decision != nullptr && decision->automatic;
}

bool RemedyPolicy::IsAutomatic(const RemedyDecision& decision) const {
  if (IsForPeople(decision.kind)) return false;
  return mode_ == StragglerMode::kAuto ||
         (mode_ == StragglerMode::kAdvise && decision.kind == RemedyKind::kStrategy);
}

void RemedyPolicy::Order(RemedyDecision& decision, Moment now) {
  SetState(decision, DecisionState::kOrdered, now);
  if (IsOfPlan(decision.kind)) {
    plan_rests_until_ = now.steady + options_.ladder_window;
  }
  actions_.order = decision.id;
}

void RemedyPolicy::DropOld() {
  const auto has_ended = [](const RemedyDecision& d) {
    return !IsOpenAdvice(d) && !IsInFlight(d) && !IsChecked(d);
  };
  auto ended = static_cast<size_t>(std::count_if(decisions_.begin(), decisions_.end(), has_ended));
  for (; ended > kDecisionsKept; --ended) {
    // First those from which nothing can be learned. The newest stays, for its id (Restore).
    const auto newest = std::prev(decisions_.end());
    auto oldest = std::find_if(decisions_.begin(), newest, [](const RemedyDecision& d) {
      return d.state == DecisionState::kWithdrawn;
    });
    if (oldest == newest) {
      oldest = std::find_if(decisions_.begin(), decisions_.end(), has_ended);
    }
    actions_.forget.push_back(oldest->id);
    decisions_.erase(oldest);
  }
}

}  // namespace paceline
