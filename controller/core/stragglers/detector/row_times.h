// The times of a row as the detector compares them, and what slow ranks cost the job.
//
// A synchronous step takes as long as its slowest rank is busy. So a slow rank costs the time that
// it is busy longer than the slowest of the other ranks that are not slow.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_ROW_TIMES_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_ROW_TIMES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline {

class RowTimes {
 public:
  explicit RowTimes(int ranks);

  // `slow` by rank: whether it is known to be slow. If all ranks of the row report their workload,
  // times are divided by its power of work_exponent.
  void Set(absl::Span<const StepCell> cells, const std::vector<bool>& slow,
           double work_exponent = 1);

  // By rank; NaN: not known. ln of seconds; if normalised(), scaled to the usual workload. A rank's
  // own time is forward + backward, or the one of the two that most ranks of the row report.
  const std::vector<double>& own() const { return own_; }
  const std::vector<double>& forward() const { return forward_; }
  const std::vector<double>& backward() const { return backward_; }
  // ln of the workload; only if normalised().
  const std::vector<double>& work() const { return work_; }
  // In seconds.
  const std::vector<double>& own_s() const { return own_s_; }
  const std::vector<double>& data_wait_s() const { return data_wait_s_; }

  bool normalised() const { return normalised_; }  // All ranks of the row report their workload.
  // Identifies the quantity in own(): another number than in the row before means another quantity.
  int quantity() const { return 2 * static_cast<int>(passes_) + (normalised_ ? 1 : 0); }
  bool waited() const { return waited_; }  // A rank has waited for data, in this row or before.
  double job_s() const { return job_s_; }
  // The resolution of the clocks: the least change of a rank's forward time from row to row, if all
  // times are multiples of it. 0 until many changes were seen, as the times of a quiet job may be
  // equal without ticks.
  double tick_s() const;
  double LostTo(int rank) const;

 private:
  enum class Passes { kBoth, kForward, kBackward };

  static Passes PassesOf(absl::Span<const StepCell> cells);
  void SetWork(absl::Span<const StepCell> cells);
  void LearnTick(float before_s, float now_s);

  std::vector<double> own_;
  std::vector<double> forward_;
  std::vector<double> backward_;
  std::vector<double> work_;
  std::vector<double> own_s_;
  std::vector<double> data_wait_s_;
  Passes passes_ = Passes::kBoth;
  bool normalised_ = false;
  double usual_work_ = std::numeric_limits<double>::quiet_NaN();  // ln; from the first row.
  bool waited_ = false;
  double job_s_ = 0;
  std::vector<float> before_s_;  // Forward, of the last row; 0: none.
  double least_change_s_ = std::numeric_limits<double>::infinity();
  int64_t changes_ = 0;        // Since that was first seen,
  bool all_multiples_ = true;  // and whether all times since were multiples of it.
  double slowest_s_ = 0;       // Of the ranks that are not slow, the slowest
  double second_s_ = 0;        // and the next.
  int slowest_ = -1;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_ROW_TIMES_H_
