// Whether a remedy helps, from the steps after it alone: compares what they took with what the same
// steps would have taken without it.
//
// The ranks' own times do not depend on who waits for whom. So the steps are played again
// (ladder_model.h), with the former ladder, or with the replaced ranks as slow as they were. Both
// runs contain the same random stalls, so these hide no effect. Means from before and after would:
// if 2 % of the rank-steps of 8 ranks stall for ten steps' time, the mean of 100 steps has a
// standard error of a seventh of itself.
//
// The overhead covers what the model leaves out, such as what ranks on one machine take from one
// another. A trial of nothing, with the same ladder and no replaced ranks, measures it.
//
// Blocks are whole cycles of both ladders. Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_TRIAL_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_TRIAL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/core/ladder.h"
#include "controller/core/stragglers/job/step_rows.h"
#include "controller/core/stragglers/ladder/ladder_cost.h"
#include "controller/core/stragglers/ladder/ladder_stalls.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"

namespace paceline {

// What a trial compares with.
struct TrialSetup {
  std::vector<RankHome> homes;  // By rank.
  std::vector<int> gradient_groups;
  Ladder former;              // The ladder without the remedy,
  Ladder present;             // and with it.
  std::vector<int> replaced;  // Ranks that were slow,
  double slowdown = 1;        // by this factor.
  double overhead = 1;        // What steps took divided by what the model said, before the remedy.
};

class Trial {
 public:
  explicit Trial(TrialSetup setup);

  // The block that the row completes, if any. The cost of communication without the remedy comes
  // from the measured averages, or from the exchange of gradients.
  std::optional<ComparedSteps> Add(const StepRow& row, const AllReduceCosts& averaging,
                                   double gradient_exchange_s);

 private:
  const TrialSetup setup_;
  const int64_t block_;  // Steps; 0: cycles are too long to compare.
  OwnTimes times_;       // For the block being filled.
  int64_t first_step_ = 0;
  double with_s_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_TRIAL_H_
