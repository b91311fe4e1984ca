// Whether a remedy helps, told from the steps after it alone: what they have taken, and what the
// same steps would have taken without it.
//
// The ranks' own times do not depend on who waits for whom. So the steps are played once more
// (ladder_model.h), by the former ladder, or with the ranks that were replaced as slow as they
// were. Both have each random stall in common, which thus hides no effect. Means of before and
// after do not: if 2 % of the rank-steps of 8 ranks stall for ten steps' time, the mean of 100
// steps has a standard error of a seventh of itself.
//
// What the model leaves out, such as what ranks on one machine take from one another, is in
// the overhead. A trial of nothing, with the same ladder and no rank replaced, measures it.
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
  Ladder former;              // Ladder without the remedy,
  Ladder present;             // and with it.
  std::vector<int> replaced;  // Ranks that were slow,
  double slowdown = 1;        // by so much.
  double overhead = 1;        // What steps took, over what the model said, before the remedy.
};

class Trial {
 public:
  explicit Trial(TrialSetup setup);

  // The block that the row completes, if it does. What communication costs without the remedy is
  // taken from the measured averages, or from the exchange of gradients.
  std::optional<ComparedSteps> Add(const StepRow& row, const AllReduceCosts& averaging,
                                   double gradient_exchange_s);

 private:
  const TrialSetup setup_;
  const int64_t block_;  // Steps; 0: cycles are too long to be compared.
  OwnTimes times_;       // Of the block being filled.
  int64_t first_step_ = 0;
  double with_s_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_TRIAL_H_
