// Puts what the ranks report of their steps together, step by step.
//
// Steps become rows in ascending order, as steps/step_assembler.h settles them. A row has the
// reports of 95 % of the ranks at least; where ranks skip steps (Slipstream: one that stalled goes
// on where the job is), of most of them. Who has not reported gets the median of the others' own
// times. A step that fewer have reported is no row.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "controller/core/steps/step_assembler.h"
#include "controller/core/stragglers/job/step_times.h"

namespace paceline {

// What a rank's exchanges with others have taken in a step, waits included.
struct RankExchange {
  float gradients_s = 0;
  float averaging_s = 0;    // Of parameters,
  int averaging_ranks = 0;  // over this many ranks; 0: none in this step.
};

// One step of all ranks.
struct StepRow {
  int64_t step = -1;
  bool masked = false;         // Of any rank.
  double total_s = 0;          // Mean over the ranks that have reported.
  double communication_s = 0;  // Of the rank that waited least: the transfer itself.
  double sent_bytes = 0;       // By the rank that sent most.
  // The same of averages, by the ranks that they were over.
  std::map<int, double> averaging_s;
  std::vector<float> own_s;             // By rank: OwnSeconds.
  std::vector<RankExchange> exchanges;  // By rank; of those that have not reported all 0.
};

class StepRows {
 public:
  // Requires: ranks > 0, open_steps > 0.
  StepRows(int ranks, int open_steps, bool ranks_skip = false);

  // Appends the rows that the report completes. A report that comes twice or too late changes
  // nothing. Requires: a rank of these, IsPlausible(times).
  void Add(int rank, const StepTimes& times, std::vector<StepRow>& rows);

 private:
  void CloseOldest(std::vector<StepRow>& rows);
  // Of the oldest step.
  void FillGaps(std::vector<float>& own_s) const;

  const int ranks_;
  const int enough_;  // Ranks that make a row.
  StepAssembler steps_;
  std::vector<StepRow> open_;  // By slot.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_
