// The step ring: a trainer shows in it what it is doing, without system calls.
//
// A mapped file with one writer (the trainer's training thread) and any number of readers
// (the daemon; a person's tool after the trainer's death). The layout is fixed, in the
// machine's byte order (ring_layout.h):
//
//   offset   0  header   magic "PCLRING1", layout version, sizes, capacity; records written;
//                        collectives entered
//   offset 128  live     two cells: the phase that the writer is in, its step, since when
//   offset 256  slots    `capacity` of 192 bytes; the n-th record written is in n % capacity
//
// Torn reads: each live cell and each slot carries a sequence number that is odd while the
// writer changes them; a reader takes a copy only if the number is even and the same before
// and after. All words are atomics, stored with release and loaded with acquire (plain moves
// on x86), so that the race is defined behaviour. The live cells are written in turn: a writer
// that is killed in the middle of one leaves the other whole.
//
// A reader trusts nothing that the writer can still change: it keeps the capacity that fitted the
// file's size at opening. A file that is truncated later reads as an idle ring.
//
// Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
// Entering a phase costs one clock read and some five stores (bench: ring).
#ifndef WORKER_RING_STEP_RING_H_
#define WORKER_RING_STEP_RING_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mapped_file/mapped_file.h"

namespace paceline {

// Mirrors paceline.v1.Phase, with the same numbers.
enum class Phase : uint32_t {
  kIdle = 0,
  kDataWait = 1,
  kForward = 2,
  kBackward = 3,
  kCommunication = 4,
  kOptimizer = 5,
  kAveraging = 6,
  kRoundWait = 7,
  kEvaluating = 8,  // Between steps, so not in records.
};
inline constexpr int kPhases = 8;  // Phases of a step.

// "forward", "data_wait" etc.
const char* PhaseName(Phase phase);

// One finished step.
struct StepRecord {
  uint64_t step = 0;                         // 0-based.
  uint64_t start_ns = 0;                     // When its first phase began.
  uint64_t total_ns = 0;                     // From start_ns to the end of the step.
  std::array<uint64_t, kPhases> phase_ns{};  // Time in each phase; kIdle: the rest.
  uint64_t samples = 0;
  uint64_t tokens = 0;                // 0 for images.
  uint64_t wire_bytes = 0;            // Sent by this rank in collectives.
  uint64_t averaging_group_size = 0;  // 0: no parameters were averaged.
  double workload = 0;                // As in proto/worker.proto.
  float loss = 0;
  float grad_norm = 0;  // NaN: not computed.
  float learning_rate = 0;
  bool masked = false;  // Its times are not typical of a step.
};

// What the writer is doing at this moment.
struct LivePhase {
  Phase phase = Phase::kIdle;
  uint64_t step = 0;      // The step it is in, or the number of steps done when idle.
  uint64_t since_ns = 0;  // When it entered the phase.
  // Batches done and in all, for kEvaluating; else 0.
  uint32_t done = 0;
  uint32_t all = 0;
};

// Creates the file anew with room for `capacity` records, all unused; one that is mapped
// under that name lives on without it. The daemon does this before it starts the trainer.
// `capacity` is at least 1. ResourceExhausted when the file system is full.
absl::Status CreateStepRing(const std::string& path, uint32_t capacity);

// The trainer's side. Thread-compatible; one writer per file. In a forked child (forked_child.h) it
// writes nothing: the file is its parent's.
class StepRingWriter {
 public:
  // Goes on after the records of an earlier writer. NotFound; FailedPrecondition when the file
  // is not a ring of this layout version; DataLoss when its header contradicts its size.
  static absl::StatusOr<StepRingWriter> Open(const std::string& path);

  // Enters `phase` of `step` now; the previous phase ends at the same moment. The first phase
  // but kIdle that is entered after EndStep (or at the start) begins the step. kIdle within a
  // step is counted as its idle time; between steps it only shows.
  void Enter(Phase phase, uint64_t step);

  // Is kEvaluating, between steps with `steps` of them done, with so many of its batches done. The
  // phase begins with the first call after another phase, and ends with the next one entered. A
  // step that was begun and has not ended is forgotten.
  void ShowEvaluation(uint64_t steps, uint32_t done, uint32_t all);

  // Ends the step and is idle with step + 1 steps done. The result has its times; Append adds
  // its record.
  StepRecord EndStep(uint64_t step);

  // Appends a record.
  void Append(const StepRecord& record);

  // Counts a collective of a sharded model that this rank is about to enter. Any thread.
  void CountCollective();
  // An evaluation is done, in which replicas may enter different numbers of collectives: all ranks
  // count on from the same one.
  void RoundCollectivesUp();
  // A generation of a sharded model begins: counts anew.
  void ResetCollectives();

 private:
  explicit StepRingWriter(MappedFile file);
  void ShowLive(const LivePhase& live);

  MappedFile file_;
  uint64_t live_changes_;  // Changes of the live cells so far.
  uint64_t written_;       // Records so far.
  bool in_step_ = false;
  Phase phase_ = Phase::kIdle;
  uint64_t phase_start_ns_ = 0;
  StepRecord current_;
};

// The daemon's side. Thread-compatible.
class StepRingReader {
 public:
  // Fails as StepRingWriter::Open.
  static absl::StatusOr<StepRingReader> Open(const std::string& path);

  // What the writer is doing, or was doing when it died.
  LivePhase Live() const;

  // Number of records ever written, as the writer tells.
  uint64_t Written() const;

  // Of a sharded model: 1 + the collectives that the writer has entered in its generation. 0: it
  // does not count them.
  uint64_t Collectives() const;

  struct Batch {
    std::vector<StepRecord> records;  // Oldest first.
    uint64_t next = 0;                // Pass this as `from` the next time.
    uint64_t lost = 0;  // Records since `from` that were overwritten before they were read.
  };
  // The records from number `from` (0-based count of records written) on. None, and `from` as
  // `next`, when the writer tells of more than kMaxAhead since then.
  Batch ReadFrom(uint64_t from) const;

  // Nobody writes so many records between two looks: a day of steps of 20 microseconds.
  static constexpr uint64_t kMaxAhead = uint64_t{1} << 32;

 private:
  StepRingReader(MappedFile file, uint32_t capacity)
      : file_(std::move(file)), capacity_(capacity) {}

  uint64_t ReadWritten() const;
  LivePhase ReadLive() const;

  MappedFile file_;
  uint32_t capacity_;
};

// CLOCK_MONOTONIC in nanoseconds.
uint64_t MonotonicNanos();

}  // namespace paceline

#endif  // WORKER_RING_STEP_RING_H_
