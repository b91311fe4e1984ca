// The last minutes of a job: step time, waits, loss and throughput, with a point for each period.
// Curves of the whole run are made of these points: run_curves.h.
//
// A period is one second at first, so that short jobs show a line, too. If there are too many
// points, pairs are merged until a period has four seconds; then the oldest are forgotten. So some
// 24 minutes are kept.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STEPS_JOB_SERIES_H_
#define CONTROLLER_CORE_STEPS_JOB_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "common/core/moment.h"
#include "controller/core/job/job.h"
#include "controller/core/stragglers/job/step_times.h"

namespace paceline {

inline constexpr size_t kSeriesPoints = 360;
inline constexpr absl::Duration kFirstSeriesPeriod = absl::Seconds(1);
inline constexpr absl::Duration kLastSeriesPeriod = absl::Seconds(4);

struct SeriesPoint {
  absl::Time end;    // Wall.
  int64_t step = 0;  // Completed by every rank then.
  // Step records reported in the period, and sums over them in seconds.
  int64_t records = 0;
  double step_s = 0;
  double own_s = 0;
  double data_wait_s = 0;
  // At the end of the period, for all ranks.
  float loss = 0;
  float samples_per_second = 0;
  float tokens_per_second = 0;
  std::optional<float> mfu;
};

class JobSeries {
 public:
  // Takes in a step that a rank has finished. Requires: the times are plausible.
  void Add(const StepTimes& times);

  // Takes in the job as it is now; ends the period if its time has come. Returns whether it did:
  // the period is then the last point, or the later part of it.
  bool Follow(const Job& job, Moment now);

  absl::Duration period() const { return period_; }
  // Oldest first.
  const std::deque<SeriesPoint>& points() const { return points_; }

 private:
  void MergePairs();

  absl::Duration period_ = kFirstSeriesPeriod;
  absl::Time due_ = absl::InfinitePast();  // Steady; the end of the period.
  SeriesPoint open_;
  std::deque<SeriesPoint> points_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_JOB_SERIES_H_
