// What people are told of a job: who is slow now, and the newest verdicts.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_TOLD_VERDICTS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_TOLD_VERDICTS_H_

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

// The newest so many verdicts are kept.
inline constexpr size_t kVerdictsKept = 50;

// A verdict as it was told.
struct ToldVerdict {
  Verdict verdict;
  NodeName node;    // Empty for groups.
  absl::Time time;  // Wall.
  // Of kCommunication: who exchanges slowly.
  std::optional<ExchangeGroup> exchange = {};
};

class ToldVerdicts {
 public:
  void Tell(const ToldVerdict& told);
  // Nobody is known to be slow: the ranks, or what they train by, are others now.
  void Restart();

  // Ranks that are slow now, by rank, and nodes, by -1 - their number.
  const std::map<int, ToldVerdict>& slow() const { return slow_; }
  // Groups that exchange slowly now, by level and first rank.
  const std::map<std::pair<int, int>, ToldVerdict>& slow_exchanges() const {
    return slow_exchanges_;
  }
  // The newest ones, oldest first.
  const std::deque<ToldVerdict>& recent() const { return recent_; }
  // How many of the kind were told so far, of ranks, nodes and groups that exchange.
  int64_t count(VerdictKind kind) const { return counts_[static_cast<size_t>(kind)]; }
  // Of those that were told, kept or not.
  int64_t count() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

 private:
  std::map<int, ToldVerdict> slow_;
  std::map<std::pair<int, int>, ToldVerdict> slow_exchanges_;
  std::deque<ToldVerdict> recent_;
  std::array<int64_t, static_cast<size_t>(VerdictKind::kGroup) + 1> counts_{};  // By kind.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_TOLD_VERDICTS_H_
