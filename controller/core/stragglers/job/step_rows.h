// Puts what the ranks tell of their steps together, step by step.
//
// Ranks tell in batches, so the reports of a step lie apart; up to kOpenSteps are open at once. A
// step that all ranks have told of is a row. So is one that 95 % of them have told of, as soon as
// the same is true of one kPatience steps later: who has not told by then gets the median of the
// others. One with fewer is given up when a much later one takes its place. Where ranks skip steps
// (Slipstream: one that stalled goes on where the job is), most of them are enough.
//
// No step lies kFarAhead beyond the newest row: one that a rank invents there keeps no real one
// away.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "controller/core/stragglers/job/step_times.h"

namespace paceline {

inline constexpr int kOpenSteps = 256;
inline constexpr int kPatience = 32;
inline constexpr int64_t kFarAhead = 4096;

// What a rank's exchanges with others have taken in a step, waits included.
struct RankExchange {
  float gradients_s = 0;
  float averaging_s = 0;    // Of parameters,
  int averaging_ranks = 0;  // over so many; 0: none in this step.
};

// One step of all ranks.
struct StepRow {
  int64_t step = -1;
  bool masked = false;         // Of any rank.
  double total_s = 0;          // Mean over the ranks that have told.
  double communication_s = 0;  // Of the rank that waited least: the transfer itself.
  double sent_bytes = 0;       // By the rank that sent most.
  // The same of averages, by the ranks that they were over.
  std::map<int, double> averaging_s;
  std::vector<float> own_s;             // By rank: OwnSeconds.
  std::vector<RankExchange> exchanges;  // By rank; of those that have not told all 0.
};

class StepRows {
 public:
  // No step before `first_step` counts. Requires: ranks > 0.
  StepRows(int ranks, int64_t first_step, bool ranks_skip = false);

  // Appends the rows that the report completes, at most two. A report that comes twice, or of a
  // step that is complete or given up, changes nothing. Requires: a rank of these,
  // IsPlausible(times).
  void Add(int rank, const StepTimes& times, std::vector<StepRow>& rows);

 private:
  struct Open {
    StepRow row;
    int told = 0;
    std::vector<bool> by;  // Rank.
    bool closed = false;   // It was a row.
  };

  Open& SlotOf(int64_t step) { return open_[static_cast<size_t>(step % kOpenSteps)]; }
  // Whether the step has its slot now, which it may have had to take.
  bool Begin(Open& slot, int64_t step);
  void Close(Open& slot, std::vector<StepRow>& rows);

  const int ranks_;
  const int enough_;        // Ranks that make a row.
  int64_t newest_;          // Step that enough have told of.
  std::vector<Open> open_;  // Of step s: s modulo their number.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_
