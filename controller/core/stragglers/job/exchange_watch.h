// Which groups of a job's ranks exchange slowly: parameters on each level of its ladder, and
// gradients within its gradient groups.
//
//   StepRow ─▶ the exchanges of each level, by group ─▶ CommWatch ─▶ verdicts
//
// Groups of a level are compared with those of the same size, which exchange as many bytes over as
// many ranks, and only in the steps in which all of them do. A group that a narrower level has,
// too, is watched there. While no ladder is in force, and in the warm-up, all ranks exchange with
// one another, and nothing can be compared; nor can a level with three groups or fewer.
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

// Ranks that exchange with one another: consecutive ones.
struct ExchangeGroup {
  int level = 0;  // Of the ladder, 1-based; 0: of gradients.
  int first_rank = 0;
  int ranks = 0;
  int waits_least = 0;  // CommVerdict::waits_least
  double waits_least_share = 0;
};

// As CommVerdict's.
struct ExchangeVerdict {
  Verdict verdict;
  ExchangeGroup group;
};

struct ExchangeLevels {
  Ladder ladder;                     // In force.
  std::vector<int> gradient_groups;  // Sizes; empty: none.
  std::vector<RankHome> homes;       // By rank.
  int64_t warmup_steps = 0;          // By the gradients of all ranks.
};

class ExchangeWatch {
 public:
  ExchangeWatch(const DetectorOptions& options, const ExchangeLevels& levels);

  // A row of all ranks, which is typical. Appends what it makes known. Nothing is allocated, except
  // by `verdicts` growing.
  void Add(const StepRow& row, std::vector<ExchangeVerdict>& verdicts);

 private:
  // Groups that are compared with one another.
  struct Comparison {
    std::vector<ExchangeGroup> groups;
    std::unique_ptr<CommWatch> watch;
    double job_s = 0;  // Since the exchange before.
  };

  void AddLevel(const DetectorOptions& options, int level, const std::vector<int>& sizes);
  // On a level that is watched.
  bool AveragesAlready(const ExchangeGroup& group) const;
  bool HasExchanged(const Comparison& comparison, const StepRow& row) const;

  const int64_t warmup_steps_;
  std::vector<Comparison> comparisons_;
  std::vector<double> durations_s_;  // Scratch.
  std::vector<CommVerdict> found_;   // Scratch.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_EXCHANGE_WATCH_H_
