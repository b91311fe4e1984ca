// The step ring: how a trainer tells, without a system call, what it is doing.
//
// A mapped file with one writer (the trainer's training thread) and any number of readers
// (the daemon; a person's tool after the trainer's death). The layout is fixed, in the
// machine's byte order:
//
//   offset   0  header   magic "PCLRING1", layout version, sizes, capacity
//   offset 128  now      the phase that the writer is in, its step, since when
//   offset 256  records  `capacity` slots of 128 bytes; step n's record is in slot n' % capacity,
//                        where n' counts the records written
//
// Torn reads: the `now` cell and each slot carry a sequence number that is odd while the
// writer changes them; a reader takes a copy only if the number is even and the same before
// and after. Every field is a relaxed atomic word, so the race is defined behaviour.
//
// Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
// The writer costs two clock reads and some ten stores per phase (bench: ring).
#ifndef WORKER_RING_STEP_RING_H_
#define WORKER_RING_STEP_RING_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

// The numbers of paceline.v1.Phase.
enum class Phase : uint32_t {
  kIdle = 0,
  kDataWait = 1,
  kForward = 2,
  kBackward = 3,
  kCommunication = 4,
  kOptimizer = 5,
};
inline constexpr int kPhases = 6;

// "forward" etc.
const char* PhaseName(Phase phase);

// One finished step.
struct StepRecord {
  uint64_t step = 0;          // 0-based.
  uint64_t start_ns = 0;      // Begin of its first phase.
  uint64_t total_ns = 0;      // From start_ns to the end of the step.
  std::array<uint64_t, kPhases> phase_ns{};  // Time in each phase within the step; kIdle: the rest.
  uint64_t samples = 0;
  float loss = 0;
};

// What the writer is doing at this moment.
struct LivePhase {
  Phase phase = Phase::kIdle;
  uint64_t step = 0;      // The step it is in, or the number of steps done when idle.
  uint64_t since_ns = 0;  // When it entered the phase.
};

// Creates the file anew with room for `capacity` records, all unused. The daemon does this
// before it starts the trainer. `capacity` is at least 1.
absl::Status CreateStepRing(const std::string& path, uint32_t capacity);

// The trainer's side. Thread-compatible; one writer per file.
class StepRingWriter {
 public:
  // Fails with FailedPrecondition when the file is not a ring of this layout version.
  static absl::StatusOr<StepRingWriter> Open(const std::string& path);

  StepRingWriter(StepRingWriter&& other) noexcept;
  StepRingWriter& operator=(StepRingWriter&& other) noexcept;
  ~StepRingWriter();

  // Enters `phase` of `step` now; the previous phase ends at the same moment. The first
  // phase entered after EndStep (or at the start) begins the step. kIdle within a step is
  // counted as its idle time.
  void Enter(Phase phase, uint64_t step);

  // Ends the step: appends its record, and is idle with step + 1 steps done.
  void EndStep(uint64_t step, uint64_t samples, float loss);

 private:
  explicit StepRingWriter(void* map, size_t size);

  void* map_ = nullptr;
  size_t size_ = 0;
  bool in_step_ = false;
  Phase phase_ = Phase::kIdle;
  uint64_t phase_start_ns_ = 0;
  uint64_t written_ = 0;
  StepRecord current_;
};

// The daemon's side. Thread-compatible.
class StepRingReader {
 public:
  // Fails with NotFound, or with FailedPrecondition when the file is not a ring of this
  // layout version; DataLoss when its header contradicts its size.
  static absl::StatusOr<StepRingReader> Open(const std::string& path);

  StepRingReader(StepRingReader&& other) noexcept;
  StepRingReader& operator=(StepRingReader&& other) noexcept;
  ~StepRingReader();

  // What the writer is doing, or was doing when it died.
  LivePhase Live() const;

  // Number of records ever written.
  uint64_t Written() const;

  struct Batch {
    std::vector<StepRecord> records;  // Oldest first.
    uint64_t next = 0;                // Pass this as `from` the next time.
    uint64_t lost = 0;                // Records since `from` that were overwritten before they were read.
  };
  // The records from number `from` (0-based count of records written) on.
  Batch ReadFrom(uint64_t from) const;

 private:
  explicit StepRingReader(void* map, size_t size);

  void* map_ = nullptr;
  size_t size_ = 0;
};

// CLOCK_MONOTONIC in nanoseconds.
uint64_t MonotonicNanos();

}  // namespace paceline

#endif  // WORKER_RING_STEP_RING_H_
