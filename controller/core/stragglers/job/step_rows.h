// Puts what the ranks tell of their steps together, step by step.
//
// Ranks tell in batches, so the reports of a step lie apart; up to kOpenSteps are open at once. A
// step that all ranks have told of is a row. One that is still open when a much later one comes is
// given up: it lacks reports.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_
#define CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "controller/core/stragglers/job/step_times.h"

namespace paceline {

inline constexpr int kOpenSteps = 256;

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
  double total_s = 0;          // Mean over the ranks.
  double communication_s = 0;  // Of the rank that waited least: the transfer itself.
  // The same of averages, by the ranks that they were over.
  std::map<int, double> averaging_s;
  std::vector<float> own_s;             // By rank: OwnSeconds.
  std::vector<RankExchange> exchanges;  // By rank.
};

class StepRows {
 public:
  // Requires: ranks > 0.
  explicit StepRows(int ranks);

  // The row that the report completes, if it does. A report that comes twice, or of a step that is
  // complete or given up, changes nothing. Requires: a rank of these, IsPlausible(times).
  std::optional<StepRow> Add(int rank, const StepTimes& times);

 private:
  struct Open {
    StepRow row;
    int told = 0;
    std::vector<bool> by;  // Rank.
  };

  const int ranks_;
  std::vector<Open> open_;  // Of step s: s modulo their number.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_JOB_STEP_ROWS_H_
