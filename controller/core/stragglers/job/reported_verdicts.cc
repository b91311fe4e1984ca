#include "controller/core/stragglers/job/reported_verdicts.h"

#include <algorithm>

namespace paceline {

void ReportedVerdicts::Tell(const ReportedVerdict& reported) {
  recent_.push_back(reported);
  if (recent_.size() > kVerdictsKept) recent_.pop_front();
  const Verdict& verdict = reported.verdict;
  ++counts_[static_cast<size_t>(verdict.kind)];
  const bool is_over =
      verdict.kind == VerdictKind::kTransient || verdict.kind == VerdictKind::kRecovered;
  if (reported.exchange.has_value()) {
    const std::pair<int, int> group(reported.exchange->level, reported.exchange->first_rank);
    slow_exchanges_.erase(group);
    if (!is_over) slow_exchanges_.emplace(group, reported);
  } else if (is_over) {
    slow_.erase(verdict.rank);
    const auto persists = std::count_if(slow_.begin(), slow_.end(), [&](const auto& entry) {
      const Verdict& other = entry.second.verdict;
      return other.kind == VerdictKind::kPersistent && other.node == verdict.node;
    });
    if (persists < 2) slow_.erase(-1 - verdict.node);
  } else if (verdict.kind != VerdictKind::kGroup) {
    slow_[verdict.rank >= 0 ? verdict.rank : -1 - verdict.node] = reported;
  }
}

void ReportedVerdicts::Restart() {
  slow_.clear();
  slow_exchanges_.clear();
}

}  // namespace paceline
