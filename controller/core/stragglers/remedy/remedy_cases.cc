// What the policy keeps of verdicts (remedy_policy.h): persistent stragglers, and doubts about
// them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"

namespace paceline {
namespace {

// How many slow ranks make a case of their node.
constexpr int kNodeRanks = 2;

int KeyOfNode(int node) { return -1 - node; }
int KeyOf(const Verdict& verdict) {
  return verdict.rank >= 0 ? verdict.rank : KeyOfNode(verdict.node);
}

// The share of the job's time that is lost; if not known, the most that it can be.
double ShareOf(const Verdict& verdict) {
  const bool known = verdict.lost_share > 0 || verdict.kind != VerdictKind::kGroup;
  return known ? verdict.lost_share : std::max(0.0, 1 - 1 / verdict.slowdown);
}

// One line for people, true for each kind of GROUP: a jump and many slow ranks look alike here.
std::string DescribeGroup(const Verdict& verdict) {
  const std::string group = absl::StrCat("peer group ", verdict.peer_group);
  if (verdict.slowdown <= 1) {
    return absl::StrFormat("%s is faster since step %d: it takes %.2f x its earlier time", group,
                           verdict.since_step, verdict.slowdown);
  }
  const std::string share = verdict.lost_share > 0 ? absl::StrFormat(", %.0f %% of the job's time",
                                                                     100 * verdict.lost_share)
                                                   : "";
  if (verdict.cause == StragglerCause::kImbalance) {
    return absl::StrFormat("%s takes %.2f x the time of the other groups since step %d%s", group,
                           verdict.slowdown, verdict.since_step, share);
  }
  return absl::StrFormat(
      "many ranks of %s, or all, have become slower together: %.2f x since step %d%s", group,
      verdict.slowdown, verdict.since_step, share);
}

}  // namespace

void RemedyPolicy::TakeInRecovery(const VerdictReport& report, Moment now) {
  const Verdict& verdict = report.verdict;
  const std::string why = absl::StrCat("rank ", verdict.rank, " is well again");
  cases_.erase(verdict.rank);
  WithdrawIf(
      [&](const RemedyDecision& d) {
        return d.undoes == 0 && !IsOfPlan(d.kind) && d.rank == verdict.rank;
      },
      why, now);
  if (!HasNodeCase(verdict.node) || CountSlowOn(report.node) >= kNodeRanks) return;
  cases_.erase(KeyOfNode(verdict.node));
  WithdrawIf(
      [&](const RemedyDecision& d) {
        return d.undoes == 0 && d.verdict.kind == VerdictKind::kNode &&
               d.verdict.node == verdict.node;
      },
      why, now);
}

void RemedyPolicy::TakeInStraggler(const VerdictReport& report, const RemedyFacts& facts,
                                   Moment now) {
  const Verdict& verdict = report.verdict;
  RemedyDecision* checked = UnderWay();
  if (checked != nullptr && IsChecked(*checked)) {
    const bool again = checked->rank >= 0 && checked->rank == verdict.rank;
    EndCheck(*checked, again ? DecisionState::kDidNotHelp : DecisionState::kUnchecked,
             verdict.rank >= 0 ? absl::StrCat("rank ", verdict.rank, " on ", report.node.value(),
                                              again ? " is slow again" : " became slow meanwhile")
                               : absl::StrCat(report.node.value(), " became slow meanwhile"),
             now);
    if (again) FollowUp(*checked, facts, now);
  }
  if (verdict.kind == VerdictKind::kNode) {
    WithdrawIf(
        [&](const RemedyDecision& d) {
          return d.rank >= 0 && d.undoes == 0 && d.node == report.node;
        },
        absl::StrCat("several ranks on ", report.node.value(), " are slow"), now);
  }
  const auto [known, is_new] = cases_.try_emplace(KeyOf(verdict));
  StragglerCase& straggler = known->second;
  straggler.verdict = verdict;
  straggler.node = report.node;
  for (const auto& [group, until] : doubted_until_) {
    const bool is_doubted = group == verdict.peer_group || verdict.peer_group < 0;
    if (is_doubted) straggler.held_until = std::max(straggler.held_until, until);
  }
  if (is_new) straggler.lost_s = LostUntil(verdict);
}

double RemedyPolicy::LostUntil(const Verdict& verdict) const {
  const auto before = recent_.Mean(verdict.since_step);
  return before.has_value() ? ShareOf(verdict) * before->seconds *
                                  static_cast<double>(verdict.step - verdict.since_step)
                            : 0;
}

bool RemedyPolicy::HasNodeCase(int node) const {
  return node >= 0 && cases_.count(KeyOfNode(node)) > 0;
}

int RemedyPolicy::CountSlowOn(const NodeName& node) const {
  return static_cast<int>(std::count_if(cases_.begin(), cases_.end(), [&](const auto& entry) {
    return entry.first >= 0 && entry.second.node == node;
  }));
}

int RemedyPolicy::CountPersistent() const {
  return static_cast<int>(std::count_if(cases_.begin(), cases_.end(),
                                        [](const auto& entry) { return entry.first >= 0; }));
}

void RemedyPolicy::TakeInGroup(const VerdictReport& report, Moment now) {
  const int group = report.verdict.peer_group;
  const absl::Time until = doubted_until_[group] = now.steady + options_.doubt;
  const std::string why = DescribeGroup(report.verdict);
  for (auto& [key, straggler] : cases_) {
    const int other = straggler.verdict.peer_group;
    if (other == group || other < 0) straggler.held_until = until;
  }
  WithdrawIf(
      [&](const RemedyDecision& d) {
        return d.undoes == 0 && !IsOfPlan(d.kind) && d.verdict.kind != VerdictKind::kGroup &&
               (d.verdict.peer_group == group ||
                (d.verdict.kind == VerdictKind::kNode && d.verdict.peer_group < 0));
      },
      why, now);
  RemedyDecision* checked = UnderWay();
  if (checked != nullptr && IsChecked(*checked)) {
    EndCheck(*checked, DecisionState::kUnchecked, why, now);
  }
  if (report.verdict.slowdown <= 1) {
    groups_.erase(group);
    return;
  }
  const auto [known, is_new] = groups_.try_emplace(group);
  StragglerCase& slow = known->second;
  // It has become slower again, so what was lost before does not count.
  if (is_new || slow.verdict.since_step != report.verdict.since_step) {
    slow.lost_s = LostUntil(report.verdict);
  }
  slow.verdict = report.verdict;
}

void RemedyPolicy::AddLoss(double seconds) {
  for (auto* cases : {&cases_, &groups_}) {
    for (auto& [key, slow] : *cases) slow.lost_s += ShareOf(slow.verdict) * seconds;
  }
}

void RemedyPolicy::TellOfGroups(const RemedyFacts& facts, Moment now) {
  for (const auto& [group, slow] : groups_) {
    if (ShareOf(slow.verdict) < options_.ask_share || slow.lost_s < options_.tell_group_s) continue;
    RemedyDecision reported = NewDecision(RemedyKind::kAskPerson, facts);
    reported.verdict = slow.verdict;
    reported.lost_s = slow.lost_s;
    reported.reason = absl::StrCat(DescribeGroup(slow.verdict), "; no rank is the cause");
    AskPerson(std::move(reported), now);
  }
}

}  // namespace paceline
