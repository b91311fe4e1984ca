// What the steps of an interval amount to: rates, shares and the MFU.
//
// Two accounts of time: the sum of the steps' own times, and the time from the end of the
// interval before, in which evaluation, saving and profiling are contained too.
#ifndef WORKER_TRAINER_TELEMETRY_INTERVAL_H_
#define WORKER_TRAINER_TELEMETRY_INTERVAL_H_

#include <cstdint>
#include <optional>

#include "worker/ring/step_ring.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Thread-compatible.
class Interval {
 public:
  struct Options {
    double flops_per_sample = 0;       // Forward and backward; 0: not known.
    std::optional<double> peak_flops;  // Of the device, per second.
  };

  explicit Interval(const Options& options) : options_(options) {}

  // Adds a finished step. `productive`: the optimizer took it.
  void Add(const StepRecord& record, bool productive);

  // Steps in it.
  int64_t steps() const { return steps_; }
  // The latest record, of this interval or the one before.
  const StepRecord& last() const { return last_; }

  // Ends it and begins the next one. Requires: steps() > 0. What records do not tell (mean
  // loss, memory, levels, drift) is left to the caller.
  RankFigures End();

 private:
  const Options options_;
  int64_t skipped_ = 0;  // Since the start.
  uint64_t began_ns_ = 0;
  StepRecord last_;
  int64_t steps_ = 0;
  uint64_t samples_ = 0;
  uint64_t tokens_ = 0;
  uint64_t training_ns_ = 0;
  uint64_t data_wait_ns_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_INTERVAL_H_
