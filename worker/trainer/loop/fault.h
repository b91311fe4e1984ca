// Intentional disturbances for drills and tests, as requested by a job file's `chaos`.
#ifndef WORKER_TRAINER_LOOP_FAULT_H_
#define WORKER_TRAINER_LOOP_FAULT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "worker/trainer/config.h"

namespace paceline {

// Whether the fault applies to this member's rank and generation.
bool Concerns(const FaultConfig& fault, const Member& member);

// Whether the fault happens to `rank` before `step`. With a probability, it depends on (seed, rank,
// step) only: mix(mix(mix(seed) ^ rank) ^ step) / 2^64 < probability, where mix is the finalizer of
// SplitMix64.
bool Happens(const FaultConfig& fault, uint64_t seed, int rank, int64_t step);

// Whether a bit of the rank's model should flip before the step; the strategy does it. Checks for
// the file that ends the fault.
bool FlipsBit(const TrainerConfig& config, int64_t step);

// Disturbs the steps of one rank, each disturbance in its phase. `config` must outlive this.
// Thread-compatible, except that EndBackward may be called by the thread that runs a backward pass.
class Chaos {
 public:
  explicit Chaos(const TrainerConfig& config);

  // Call when a step begins, while it waits for data. True: make its loss NaN.
  bool BeginStep(int64_t step);
  // Call around each forward and backward pass. On CUDA these are the host's passes.
  void BeginForward();
  void EndForward();
  void BeginBackward();
  void EndBackward();
  // Call after the step's last pass, before others have all that it computed.
  void BeforeExchange();

 private:
  // Whether the file that ends the fault exists; logs this once.
  bool IsOver(size_t fault);
  void Inject(const FaultConfig& fault, int64_t step);

  const TrainerConfig& config_;
  const bool active_;
  std::vector<bool> over_;  // By index of the configured fault.

  // For the current step.
  double factor_ = 1;
  absl::Duration pause_;  // For its first forward pass.
  absl::Duration delay_;  // For its exchange.

  absl::Time begin_;         // When the pass began, monotonic.
  absl::Duration backward_;  // Undisturbed time of the last backward pass.
  std::vector<std::vector<char>> hoard_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_FAULT_H_
