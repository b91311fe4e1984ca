#include "controller/core/stragglers/job/order_progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

bool IsOn(const Job& job, const NodeName& node) {
  return std::any_of(job.ranks.begin(), job.ranks.end(),
                     [&](const RankState& rank) { return rank.slot.node == node; });
}

// Why the newest plan cannot be prepared; empty: no reason is known.
std::string PlanError(const Job& job) {
  for (const RankState& rank : job.ranks) {
    if (rank.report.plan.failed == job.plan.version) return rank.report.plan.error;
  }
  return "";
}

OrderProgress FollowLadder(const RemedyDecision& decision, const JobView& view) {
  const Job& job = *view.job;
  if (job.plan.version == decision.plan_version) {
    return {OrderState::kFailed, "the ladder could not be changed"};
  }
  if (view.facts.running && decision.plan_version < view.facts.plan_version &&
      !view.facts.plan_pending) {
    return {OrderState::kDone};
  }
  const std::string error = PlanError(job);
  if (!error.empty()) return {OrderState::kFailed, error};
  return {};
}

// For another mode of Slipstream, or a strategy that needs another generation.
OrderProgress FollowStrategy(const RemedyDecision& decision, const JobView& view) {
  const Job& job = *view.job;
  if (job.next_plan.has_value() || !view.facts.running) return {};
  if (job.plan.version == decision.plan_version || !(job.plan.slipstream == decision.strategy)) {
    // A generation came about without the change, and says why it had to.
    const auto& history = job.recovery.history;
    const bool says_why = !history.empty() && !history.back().planned;
    return {OrderState::kFailed, absl::StrCat("the strategy could not be changed",
                                              says_why ? ": " + history.back().reason : "")};
  }
  if (decision.plan_version < view.facts.plan_version && !view.facts.plan_pending)
    return {OrderState::kDone};
  const std::string error = PlanError(job);
  if (!error.empty()) return {OrderState::kFailed, error};
  return {};
}

OrderProgress FollowMove(const RemedyDecision& decision, const JobView& view) {
  const Job& job = *view.job;
  const bool is_left = !IsOn(job, decision.node);
  if (view.facts.running && decision.generation < job.generation && is_left) {
    return {OrderState::kDone};
  }
  const bool is_asked = decision.kind == RemedyKind::kDrain
                            ? view.is_drained(decision.node)
                            : job.recovery.vacate.count(decision.node) > 0;
  const bool goes_on =
      is_asked || is_left || decision.kind == RemedyKind::kShrink || !view.facts.running;
  if (goes_on) return {};
  return {OrderState::kFailed, "it was refused, or taken back"};
}

}  // namespace

OrderProgress ProgressOf(const RemedyDecision& decision, const JobView& view) {
  if (decision.kind == RemedyKind::kLadder) return FollowLadder(decision, view);
  if (decision.kind == RemedyKind::kStrategy) return FollowStrategy(decision, view);
  if (decision.undoes == 0) return FollowMove(decision, view);
  if (!view.is_drained(decision.node)) return {OrderState::kDone};
  return {OrderState::kFailed, absl::StrCat(decision.node.value(), " is held by a person")};
}

}  // namespace paceline
