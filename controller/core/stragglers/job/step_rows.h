// Combines the ranks' reports of their steps into rows, step by step.
//
// Ranks report in batches, so the reports of a step are spread; up to kOpenSteps are open at once.
// A step becomes a row when all ranks have reported it. So does a step that 95 % have reported,
// once as many have reported the one kPatience steps later; the other ranks get the median. A step
// with fewer is given up when a much later one takes its place. If ranks skip steps (Slipstream: a
// rank that stalled goes on where the job is), a majority is enough.
//
// No step may be kFarAhead beyond the newest row, so that one that a rank invents does not keep a
// real one out.
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

// Time of a rank's exchanges with others in a step, waits included.
struct RankExchange {
  float gradients_s = 0;
  float averaging_s = 0;    // Of parameters,
  int averaging_ranks = 0;  // over this many ranks; 0: none in this step.
};

// One step of all ranks.
struct StepRow {
  int64_t step = -1;
  bool masked = false;         // If it is masked for any rank.
  double total_s = 0;          // Mean over the ranks that have reported.
  double communication_s = 0;  // Least over the ranks, so the transfer itself.
  double sent_bytes = 0;       // Most over the ranks.
  // The least time of averages, by the number of ranks that they were over.
  std::map<int, double> averaging_s;
  std::vector<float> own_s;             // By rank: OwnSeconds.
  std::vector<RankExchange> exchanges;  // By rank; all 0 if it has not reported.
};

class StepRows {
 public:
  // Steps before `first_step` do not count. Requires: ranks > 0.
  StepRows(int ranks, int64_t first_step, bool ranks_skip = false);

  // Appends the rows that the report completes, at most two. A repeated report, or one of a step
  // that is complete or given up, changes nothing. Requires: the rank is one of these,
  // IsPlausible(times).
  void Add(int rank, const StepTimes& times, std::vector<StepRow>& rows);

 private:
  struct Open {
    StepRow row;
    int told = 0;
    std::vector<bool> by;  // Ranks that have reported.
    bool closed = false;   // It became a row.
  };

  Open& SlotOf(int64_t step) { return open_[static_cast<size_t>(step % kOpenSteps)]; }
  // Whether the step has its slot now, which it may have taken from another.
  bool Begin(Open& slot, int64_t step);
  void Close(Open& slot, std::vector<StepRow>& rows);

  const int ranks_;
  const int enough_;        // Number of ranks that make a row.
  int64_t newest_;          // Newest step that enough ranks have reported.
  std::vector<Open> open_;  // Step s has the slot s modulo their number.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_
