#include "controller/core/stragglers/remedy/remedy_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

// A cost is the mean of this many of the latest decisions.
constexpr int kCostsAveraged = 5;
// After this many episodes a node is not to be used again.
constexpr int kRecurrent = 3;

bool IsReplacement(RemedyKind kind) {
  return kind == RemedyKind::kHotSwap || kind == RemedyKind::kDrain || kind == RemedyKind::kShrink;
}

bool IsReplaceable(StragglerCause cause) {
  return cause != StragglerCause::kCommunication && cause != StragglerCause::kImbalance;
}

}  // namespace

double CostOf(RemedyKind kind, bool cold, double step_s, const RemedyCosts& defaults,
              const std::vector<RemedyDecision>& decisions) {
  double paid = 0;
  int count = 0;
  for (auto d = decisions.rbegin(); d != decisions.rend() && count < kCostsAveraged; ++d) {
    if (d->kind != kind || d->paid_s <= 0) continue;
    paid += d->paid_s;
    ++count;
  }
  if (count > 0) return paid / count;
  switch (kind) {
    case RemedyKind::kLadder:
      return defaults.ladder_steps * step_s;
    case RemedyKind::kHotSwap:
      return defaults.hot_swap_steps * step_s;
    case RemedyKind::kDrain:
      return cold ? defaults.cold_start_s : defaults.hot_swap_steps * step_s;
    case RemedyKind::kShrink:
      return defaults.shrink_s;
    case RemedyKind::kStrategy:
      return defaults.strategy_s;
    case RemedyKind::kAskPerson:
    case RemedyKind::kOuterStep:
      break;
  }
  return 0;
}

bool IsBlocked(RemedyKind kind, int rank, const NodeName& node,
               const std::vector<RemedyDecision>& decisions, absl::Time steady_now,
               absl::Duration pause) {
  return std::any_of(decisions.begin(), decisions.end(), [&](const RemedyDecision& d) {
    if (steady_now - d.since >= pause || d.undoes > 0) return false;
    const bool in_vain = d.state == DecisionState::kDidNotHelp;
    if (!in_vain && d.state != DecisionState::kFailed) return false;
    if (IsOfPlan(kind)) return d.kind == kind;
    const bool same_target = (rank >= 0 && d.rank == rank) || d.node == node;
    return same_target &&
           (d.kind == kind || (in_vain && IsReplacement(kind) && IsReplacement(d.kind)));
  });
}

std::string WhyImpossible(RemedyKind kind, bool undo, const NodeName& node,
                          const RemedyFacts& facts) {
  if (!facts.running) return "the job is not running, or its membership is being changed";
  if (IsOfPlan(kind)) {
    const bool is_ladder = kind == RemedyKind::kLadder;
    if (is_ladder && !facts.has_ladder) return "its strategy has no ladder";
    if (!is_ladder && !facts.is_auto) return "its strategy is fixed";
    return facts.plan_pending ? "a plan has not been taken up yet by all ranks" : "";
  }
  if (kind == RemedyKind::kAskPerson || undo) return "";
  if (!facts.recovers) return "its ranks cannot be replaced while it trains";
  const RemedyNode there = facts.node(node);
  switch (kind) {
    case RemedyKind::kHotSwap:
      if (facts.checked_spares >= std::max(1, there.ranks)) return "";
      return facts.checked_spares == 0 ? "no checked spare stands by"
                                       : absl::StrCat("too few checked spares stand by for the ",
                                                      there.ranks, " ranks on ", node.value());
    case RemedyKind::kDrain:
      if (facts.checked_spares + there.slots_elsewhere >= there.ranks) return "";
      return absl::StrCat("no spares or free slots for the ", there.ranks, " ranks on ",
                          node.value());
    case RemedyKind::kShrink:
      if (there.ranks > 1) return absl::StrCat("other ranks are on ", node.value(), ", too");
      return facts.min_ranks > 0 && facts.ranks - 1 >= facts.min_ranks
                 ? ""
                 : "it may not shrink (recovery.min_ranks)";
    default:
      return "";
  }
}

RemedyChoice WeighRemedies(const StragglerCase& straggler, const RemedyFacts& facts,
                           const StepMean& before, const RemedyCosts& costs,
                           const std::vector<RemedyDecision>& decisions, absl::Time steady_now,
                           absl::Duration pause) {
  const Verdict& verdict = straggler.verdict;
  const auto steps_left = static_cast<double>(std::max<int64_t>(0, facts.steps_left));
  const double share = std::clamp(verdict.lost_share, 0.0, 1.0);
  const double healthy_s = before.seconds * (1 - share);
  RemedyChoice choice;
  choice.nothing_s = share * before.seconds * steps_left;
  if (!IsReplaceable(verdict.cause)) {
    choice.obstacles = verdict.cause == StragglerCause::kImbalance
                           ? "its work is larger, which another node would not change"
                           : "its network is slow, which is no fault of the node";
    return choice;
  }
  const auto consider = [&](RemedyKind kind) {
    std::string why = WhyImpossible(kind, /*undo=*/false, straggler.node, facts);
    if (why.empty() &&
        IsBlocked(kind, verdict.rank, straggler.node, decisions, steady_now, pause)) {
      why = absl::StrCat(NameOf(kind), " was tried in vain");
    }
    if (!why.empty()) {
      absl::StrAppend(&choice.obstacles, choice.obstacles.empty() ? "" : "; ", why);
      return;
    }
    RemedyOption option;
    option.kind = kind;
    option.step_s = healthy_s;
    const RemedyNode there = facts.node(straggler.node);
    option.cost_s =
        CostOf(kind, facts.checked_spares < there.ranks, before.seconds, costs, decisions);
    option.total_s = option.cost_s;
    if (kind == RemedyKind::kShrink) {
      const double longer_s = healthy_s / (facts.ranks - 1);
      option.step_s += longer_s;
      option.total_s += longer_s * steps_left;
    }
    choice.options.push_back(option);
  };
  const bool whole_node = verdict.kind == VerdictKind::kNode;
  const int times = verdict.episodes + facts.node(straggler.node).replaced_before;
  const bool recurs = times >= kRecurrent;
  if (whole_node || recurs) consider(RemedyKind::kDrain);
  if (!whole_node && choice.options.empty()) {
    consider(RemedyKind::kHotSwap);
    if (!recurs) consider(RemedyKind::kDrain);
    consider(RemedyKind::kShrink);
  }
  std::stable_sort(choice.options.begin(), choice.options.end(),
                   [](const auto& a, const auto& b) { return a.total_s < b.total_s; });
  return choice;
}

}  // namespace paceline
