// Finds groups of a job's ranks that exchange slowly: parameters on each level of its ladder, and
// gradients within its gradient groups.
//
//   StepRow ─▶ the exchanges of each level, by group ─▶ CommWatch ─▶ verdicts
//
// A level's groups are compared with those of the same size, which exchange as many bytes among as
// many ranks, and only in steps in which all of them do. A group that a narrower level also has is
// watched there. While there is no ladder, and during the warm-up, all ranks exchange with one
// another, so there is nothing to compare; nor is there in a level of three groups or fewer.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_EXCHANGE_WATCH_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_EXCHANGE_WATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/core/ladder.h"
#include "controller/core/stragglers/detector/comm_watch.h"
#include "controller/core/stragglers/detector/detector_options.h"
#include "controller/core/stragglers/detector/verdict.h"
#include "controller/core/stragglers/job/step_rows.h"

namespace paceline {

// Consecutive ranks that exchange with one another.
struct ExchangeGroup {
  int level = 0;  // Of the ladder, 1-based; 0: exchanges gradients.
  int first_rank = 0;
  int ranks = 0;
  int waits_least = 0;  // CommVerdict::waits_least
  double waits_least_share = 0;
};

// As CommVerdict, for an exchange group.
struct ExchangeVerdict {
  Verdict verdict;
  ExchangeGroup group;
};

struct ExchangeLevels {
  Ladder ladder;                     // The ladder in force.
  std::vector<int> gradient_groups;  // Sizes; empty: none.
  std::vector<RankHome> homes;       // By rank.
  int64_t warmup_steps = 0;          // First steps, by the gradients of all ranks.
};

class ExchangeWatch {
 public:
  ExchangeWatch(const DetectorOptions& options, const ExchangeLevels& levels);

  // Takes in a typical row of all ranks, and appends what it makes known. Allocates nothing, unless
  // `verdicts` grows.
  void Add(const StepRow& row, std::vector<ExchangeVerdict>& verdicts);

 private:
  // Groups that are compared with one another.
  struct Comparison {
    std::vector<ExchangeGroup> groups;
    std::unique_ptr<CommWatch> watch;
    double job_s = 0;  // Since the last exchange.
  };

  void AddLevel(const DetectorOptions& options, int level, const std::vector<int>& sizes);
  // Whether the group averages on a level that is watched.
  bool AveragesAlready(const ExchangeGroup& group) const;
  bool HasExchanged(const Comparison& comparison, const StepRow& row) const;

  const int64_t warmup_steps_;
  std::vector<Comparison> comparisons_;
  std::vector<double> durations_s_;  // Scratch.
  std::vector<CommVerdict> found_;   // Scratch.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_EXCHANGE_WATCH_H_
