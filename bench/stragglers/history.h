// A labelled history of the measurements of a job's ranks, step by step, drawn from a seed. Only
// reports that are still under way are stored: the caller takes the reports of one step at a time.
//
// A rank's compute C in a step, and what it reports:
//
//   C        = step_s of the stage · e^(lasting difference + common drift + noise) · work · fault ·
//              warm-up
//   forward  = 0.35 C + host pause (+ hidden wait for data)
//   backward = 0.65 C, data wait beside it
//   wall     = the slowest rank of the step + 5 %
//
// Thread-compatible.
#ifndef BENCH_STRAGGLERS_HISTORY_H_
#define BENCH_STRAGGLERS_HISTORY_H_

#include <cstdint>
#include <vector>

#include "bench/stragglers/fault.h"
#include "bench/stragglers/history_spec.h"
#include "bench/stragglers/noise.h"
#include "bench/stragglers/random.h"
#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline::detect {

class History {
 public:
  // The same spec and seed give the same history; another spec gives independent numbers.
  History(const HistorySpec& spec, uint64_t seed);

  // Sets `arrivals` to the reports that arrive at the next step, in the order of arrival, and
  // `restarted` to whether the job was restarted before it. False when there is no next step: then
  // `arrivals` has the last late reports.
  bool Next(std::vector<StepSample>& arrivals, bool& restarted);

  // The step of the last Next.
  int64_t step() const { return step_; }
  const std::vector<DetectorRank>& ranks() const { return ranks_; }
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  void CompareUsual(Fault& fault) const;
  void MeasureStep();
  void Measure(int rank);
  void AddPauses(StepSample& sample);
  void Deliver(const StepSample& sample, std::vector<StepSample>& arrivals);
  void Spoil(StepSample& sample);
  std::vector<StepSample>& PendingAfter(int64_t steps);

  Random random_;
  HistorySpec spec_;
  NoiseModel noise_;
  double tick_s_ = 0;  // Durations are multiples of it; 0: exact.
  std::vector<DetectorRank> ranks_;
  std::vector<double> usual_;  // By rank: compute in seconds, without noise.
  std::vector<Fault> faults_;
  std::vector<int64_t> restarts_;  // Steps, ascending.
  double drift_phase_ = 0;

  int64_t step_ = -1;
  int64_t start_ = 0;  // First step since the last restart.
  double common_ = 1;  // Factors of this step: of all ranks, and by rank.
  bool checkpoint_ = false;
  struct Slow {
    double compute = 1;
    double data = 0;  // Additional time, waiting for data or in host pauses.
    double pause = 0;
  };
  std::vector<Slow> slow_;
  std::vector<StepSample> measured_;
  std::vector<std::vector<StepSample>> pending_;  // By step of arrival, modulo the longest delay.
  std::vector<int> silent_;                       // By rank: how many more reports are lost.
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_HISTORY_H_
