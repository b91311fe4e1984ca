// The trials of one job: that of the remedy being checked, and always one of nothing, which
// measures the overhead for the next remedy's trial (trial.h).
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_JOB_TRIALS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_JOB_TRIALS_H_

#include <optional>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/stragglers/job/step_rows.h"
#include "controller/core/stragglers/job/trial.h"
#include "controller/core/stragglers/ladder/ladder_cost.h"
#include "controller/core/stragglers/remedy/remedy.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"

namespace paceline {

class JobTrials {
 public:
  // The job's ranks or its plan have changed, so that what was begun says nothing about them.
  void Restart();

  // The remedy was carried out in the job as it is now. `replaced`: the ranks that were slow; none
  // for a ladder. There is no trial after an undo, a shrink or a change of strategy, with fewer
  // ranks than were asked for, with a sharded model, or with Slipstream, whose ranks have no steps
  // in common.
  void Begin(const RemedyDecision& done, std::vector<int> replaced, const Job& job);

  // The block of the remedy's trial that the row completes, if any. As Trial::Add.
  std::optional<ComparedSteps> Add(const StepRow& row, const Job& job,
                                   const AllReduceCosts& averaging, double gradient_exchange_s);

 private:
  std::optional<Trial> of_remedy_;
  std::optional<Trial> of_nothing_;
  double overhead_ = 0;  // TrialSetup::overhead; 0: not known.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_JOB_TRIALS_H_
