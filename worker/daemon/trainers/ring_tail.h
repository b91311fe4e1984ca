// Reads one trainer's step ring for the daemon: its progress, and its step records, kept up to a
// limit until they are sent.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_TRAINERS_RING_TAIL_H_
#define WORKER_DAEMON_TRAINERS_RING_TAIL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/status.pb.h"
#include "proto/worker.pb.h"
#include "worker/daemon/core/sample_rate.h"
#include "worker/ring/step_ring.h"

namespace paceline {

class RingTail {
 public:
  static constexpr size_t kMaxKept = 4096;   // Unsent records.
  static constexpr size_t kMaxBatch = 1024;  // Records per batch.

  // Begins with the oldest record still in the ring. Errors as for StepRingReader::Open.
  static absl::StatusOr<RingTail> Open(const std::string& path);

  // Reads new records. Call it before the trainer can fill the whole ring.
  void Poll();

  // `now_ns`: MonotonicNanos(), or the time when the trainer ended.
  v1::Progress Progress(uint64_t now_ns) const;

  // Number of records written, as of the last Poll, and the last of them.
  uint64_t written() const { return next_; }
  const std::optional<StepRecord>& last() const { return last_; }

  // Removes and returns the oldest unsent records, without an id; nothing if there are none.
  std::optional<v1::StepBatch> TakeBatch();

  // Records lost since the last call (or Open): too many were waiting, they were overwritten before
  // they were read, or they were implausible.
  int64_t TakeDropped() { return std::exchange(dropped_, 0); }

  // Totals since Open.
  const std::array<uint64_t, kPhases>& phase_ns() const { return phase_ns_; }

 private:
  explicit RingTail(StepRingReader reader);

  StepRingReader reader_;
  uint64_t next_ = 0;
  SampleRate rate_;
  std::optional<StepRecord> last_;
  std::deque<StepRecord> kept_;
  int64_t dropped_ = 0;
  std::array<uint64_t, kPhases> phase_ns_{};
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_RING_TAIL_H_
