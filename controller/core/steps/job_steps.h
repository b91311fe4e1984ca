// The latest steps of a job's ranks: a table with a row for each rank, or for some consecutive
// ranks, and a column for each step; and what each rank's steps take on average.
//
//            step 812   813   814   ...            a cell: the duration, and the rank's own part of
//   row 0   (0.10 0.08) ...                        it, without waits for others; if a row has
//   row 1   (0.10 0.10) ...                        several ranks, those of the rank with the
//                                                  longest own time
//
// A generation may do steps again that were done before: what it tells of a step replaces what
// earlier ones told, and steps after its newest are no longer shown. Nothing waits for a step to be
// complete (step_assembler.h): people want to see which rank has not reported it.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STEPS_JOB_STEPS_H_
#define CONTROLLER_CORE_STEPS_JOB_STEPS_H_

#include <cstdint>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/steps/step_code.h"
#include "controller/core/stragglers/job/step_times.h"

namespace paceline {

// How many of the newest steps are kept.
inline constexpr int kStepsKept = 200;

// What a rank's steps take: means over about the latest 20 steps. Seconds; 0: not known.
struct RankMeans {
  float step_s = 0;
  float own_s = 0;
  float data_wait_s = 0;
  int32_t steps = 0;  // How many steps they rest on.
};

// The part of the table that is shown.
struct StepTable {
  struct Row {
    int first_rank = 0;
    // By column; 0: not reported.
    std::vector<float> step_s;
    std::vector<float> own_s;
  };

  int ranks = 0;
  int ranks_per_row = 1;
  int64_t first_step = 0;
  int steps = 0;
  std::vector<Row> rows;
  double median_own_s = 0;  // Of all that is shown; 0: nothing is.
};

class JobSteps {
 public:
  // Requires: both positive.
  JobSteps(int ranks, int ranks_per_row);

  // From here on, records are of this generation.
  void Begin(Generation generation);

  // Takes in a step that the rank has finished. One that is too old for the table only counts in
  // the means. Requires: the rank is one of the job's, and the times are plausible.
  void Add(int rank, const StepTimes& times);

  // The newest `steps` steps (0: all that are kept), in at most `max_rows` rows.
  StepTable View(int steps, int max_rows) const;

  const RankMeans& means(int rank) const { return means_[static_cast<size_t>(rank)]; }
  int ranks() const { return ranks_; }
  int rows() const { return rows_; }
  // -1: there is none.
  int64_t newest_step() const { return newest_; }

 private:
  struct Cell {
    StepCode step = 0;
    StepCode own = 0;
  };
  struct Column {
    int64_t step = -1;  // -1: none yet.
    Generation generation{0};
  };

  Cell* CellsOf(int column) { return &cells_[static_cast<size_t>(column) * rows_]; }
  const Cell* CellsOf(int column) const { return &cells_[static_cast<size_t>(column) * rows_]; }
  static int ColumnOf(int64_t step) { return static_cast<int>(step % kStepsKept); }
  int64_t FirstStep(int steps) const;

  const int ranks_;
  const int ranks_per_row_;
  const int rows_;
  Generation generation_{0};
  bool reported_ = false;  // Whether the generation has reported a step.
  int64_t newest_ = -1;
  std::vector<Column> columns_;
  std::vector<Cell> cells_;       // By column, then row.
  std::vector<RankMeans> means_;  // By rank.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_JOB_STEPS_H_
