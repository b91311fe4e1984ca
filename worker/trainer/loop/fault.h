// Disturbances on purpose, for drills and tests: what a job file's `chaos` asks for.
#ifndef WORKER_TRAINER_LOOP_FAULT_H_
#define WORKER_TRAINER_LOOP_FAULT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "worker/trainer/config.h"

namespace paceline {

// Whether it is one of this rank in this generation.
bool Concerns(const FaultConfig& fault, const Member& member);

// Whether the fault happens to `rank` before `step`. With a probability it is drawn from
// (seed, rank, step) alone: mix(mix(mix(seed) ^ rank) ^ step) / 2^64 < probability, where mix
// is the finalizer of SplitMix64.
bool Happens(const FaultConfig& fault, uint64_t seed, int rank, int64_t step);

// Whether a bit of the rank's model shall change before the step: the strategy's affair. Looks for
// the file that ends the fault.
bool FlipsBit(const TrainerConfig& config, int64_t step);

// Disturbs the steps of one rank, in the phases that the disturbances belong to. `config` outlives
// this. Thread-compatible, but EndBackward may come from the thread that runs a backward pass.
class Chaos {
 public:
  explicit Chaos(const TrainerConfig& config);

  // A step begins; it waits for its data. True: its loss shall become NaN.
  bool BeginStep(int64_t step);
  // Around each forward and each backward pass. On CUDA a pass is what the host does of it.
  void BeginForward();
  void EndForward();
  void BeginBackward();
  void EndBackward();
  // After the last pass of the step, before others have got all that it has computed.
  void BeforeExchange();

 private:
  // Whether the file is there that ends it; the first time, the log says so.
  bool IsOver(size_t fault);
  void Inject(const FaultConfig& fault, int64_t step);

  const TrainerConfig& config_;
  const bool active_;
  std::vector<bool> over_;  // By fault of the configuration.

  // Of the step.
  double factor_ = 1;
  absl::Duration pause_;  // In its first forward pass.
  absl::Duration delay_;  // Of its exchange.

  absl::Time begin_;         // Of the pass, monotonic.
  absl::Duration backward_;  // Time of the last backward pass, undisturbed.
  std::vector<std::vector<char>> hoard_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_FAULT_H_
