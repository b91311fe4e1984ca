// The trials of one job: that of the remedy which is being checked, and at all times one of
// nothing, which measures the overhead for the next remedy's (trial.h).
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
  // The job's ranks or its plan have changed: what was begun tells nothing of them.
  void Restart();

  // The remedy was done, in the job as it is now. `replaced`: ranks that were slow; not of a
  // ladder. No trial is made where none can be: after an undo, of fewer ranks than were asked for,
  // and with Slipstream, whose ranks have no steps in common, or after it.
  void Begin(const RemedyDecision& done, std::vector<int> replaced, const Job& job);

  // The block of the remedy's trial that the row completes, if it does. As Trial::Add.
  std::optional<ComparedSteps> Add(const StepRow& row, const Job& job,
                                   const AllReduceCosts& averaging, double gradient_exchange_s);

 private:
  std::optional<Trial> of_remedy_;
  std::optional<Trial> of_nothing_;
  double overhead_ = 0;  // TrialSetup::overhead; 0: not known.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_JOB_TRIALS_H_
