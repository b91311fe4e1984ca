// What people see of a job's stragglers: who is slow now, and the newest verdicts.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_REPORTED_VERDICTS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_REPORTED_VERDICTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/stragglers/detector/verdict.h"
#include "controller/core/stragglers/job/exchange_watch.h"

namespace paceline {

// How many of the newest verdicts are kept.
inline constexpr size_t kVerdictsKept = 50;

// A verdict as people see it.
struct ReportedVerdict {
  Verdict verdict;
  NodeName node;    // Empty for groups.
  absl::Time time;  // Wall.
  // For kCommunication: who exchanges slowly.
  std::optional<ExchangeGroup> exchange = {};
};

class ReportedVerdicts {
 public:
  void Tell(const ReportedVerdict& reported);
  // The ranks, or what they train by, have changed, so that nobody is known to be slow.
  void Restart();

  // What is slow now: ranks by their number, nodes by -1 - number.
  const std::map<int, ReportedVerdict>& slow() const { return slow_; }
  // Groups that exchange slowly now, by level and first rank.
  const std::map<std::pair<int, int>, ReportedVerdict>& slow_exchanges() const {
    return slow_exchanges_;
  }
  // The newest verdicts, oldest first.
  const std::deque<ReportedVerdict>& recent() const { return recent_; }
  // How many verdicts of this kind there were, about ranks, nodes and exchange groups.
  int64_t count(VerdictKind kind) const { return counts_[static_cast<size_t>(kind)]; }
  // How many there were in all, kept or not.
  int64_t count() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

 private:
  std::map<int, ReportedVerdict> slow_;
  std::map<std::pair<int, int>, ReportedVerdict> slow_exchanges_;
  std::deque<ReportedVerdict> recent_;
  std::array<int64_t, static_cast<size_t>(VerdictKind::kGroup) + 1> counts_{};  // By kind.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_REPORTED_VERDICTS_H_
