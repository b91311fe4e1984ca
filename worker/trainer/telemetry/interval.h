// Summarises the steps of an interval: rates, shares, FLOPs and the MFU.
//
// Uses two measures of time: the sum of the steps' own times, and the time since the end of the
// previous interval, which includes evaluation, saving and profiling.
#ifndef WORKER_TRAINER_TELEMETRY_INTERVAL_H_
#define WORKER_TRAINER_TELEMETRY_INTERVAL_H_

#include <cstdint>
#include <optional>

#include "worker/ring/step_ring.h"
#include "worker/trainer/core/model_flops.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Thread-compatible.
class Interval {
 public:
  // What the steps cost.
  struct Cost {
    double flops_per_sample = 0;  // Forward and backward; 0: unknown.
    FlopsSource source = FlopsSource::kUnknown;
    std::optional<double> peak_flops;  // Of the device, per second.
  };

  // `costs_workload`: flops_per_sample is that of a unit of the records' workload, which is a
  // session's samples: of ranks that have the same samples, only one counts them as such.
  explicit Interval(bool costs_workload = false) : costs_workload_(costs_workload) {}

  // Adds a finished step. `productive`: the optimizer applied it.
  void Add(const StepRecord& record, bool productive);

  // Number of steps added.
  int64_t steps() const { return steps_; }
  // The latest record, of this interval or the one before.
  const StepRecord& last() const { return last_; }

  // Ends the interval and begins the next. Requires: steps() > 0. The caller adds what records do
  // not have (mean loss, memory, levels, drift).
  RankFigures End(const Cost& cost);

 private:
  const bool costs_workload_;
  int64_t skipped_ = 0;  // Since the start.
  uint64_t began_ns_ = 0;
  StepRecord last_;
  int64_t steps_ = 0;
  uint64_t samples_ = 0;
  uint64_t tokens_ = 0;
  double costing_ = 0;  // What flops_per_sample is to be multiplied with.
  uint64_t training_ns_ = 0;
  uint64_t data_wait_ns_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_INTERVAL_H_
