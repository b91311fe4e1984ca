// What the daemon takes out of one trainer's step ring: how far it is, and the records of its
// steps, kept up to a bound until they are sent.
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
  static constexpr size_t kMaxKept = 4096;   // Records that wait to be sent.
  static constexpr size_t kMaxBatch = 1024;  // Records of one batch.

  // Begins with the oldest record that the ring still holds. Fails as StepRingReader::Open.
  static absl::StatusOr<RingTail> Open(const std::string& path);

  // Takes the new records. To be called at least once while the trainer fills the ring.
  void Poll();

  // `now_ns`: MonotonicNanos(), or when the trainer ended.
  v1::Progress Progress(uint64_t now_ns) const;

  // Records ever written, as far as they were polled, and the last of them.
  uint64_t written() const { return next_; }
  const std::optional<StepRecord>& last() const { return last_; }

  // The oldest records that were not sent yet, without an id; nothing when there are none.
  std::optional<v1::StepBatch> TakeBatch();

  // Records that are lost since the last call, or since Open: too many were kept, they were written
  // over before they were read, or they could not be true.
  int64_t TakeDropped() { return std::exchange(dropped_, 0); }

  // Since Open.
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
