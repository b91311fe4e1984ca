#include "worker/ring/step_ring.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/forked_child.h"
#include "common/mapped_file/truncation_guard.h"
#include "worker/ring/ring_layout.h"

namespace paceline {
namespace {

using ring_layout::Header;
using ring_layout::kLiveCells;
using ring_layout::LiveCell;
using ring_layout::Ring;
using ring_layout::Slot;

static_assert(kPhases == ring_layout::kPhaseWords);

// Only a damaged file needs this many: one of the cells is always whole.
constexpr int kLiveAttempts = 1000;

// Maximum size of a ring to open: it is mapped as a whole, and the trainer owns the file.
constexpr size_t kMaxBytes = ring_layout::FileBytes(1 << 16);

// Collectives of one evaluation; more of them are only counted wrongly.
constexpr uint64_t kMostOfEvaluation = 1 << 20;

constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kRelaxed = std::memory_order_relaxed;

Ring& RingOf(const MappedFile& file) { return *static_cast<Ring*>(file.data()); }

// The header's constant part, as plain words.
struct Start {
  char magic[8];
  uint32_t version;
  uint32_t slot_bytes;
  uint32_t capacity;
  uint32_t reserved;
  uint64_t file_bytes;
};
static_assert(sizeof(Start) == offsetof(Header, padding));

// Returns the ring's capacity after checking it against the file's size.
absl::StatusOr<uint32_t> CheckRing(const MappedFile& file, const std::string& path) {
  Start start = {};
  {
    const TruncationGuard guard(file.data(), file.size());
    if (file.size() >= sizeof(Header)) std::memcpy(&start, file.data(), sizeof(start));
  }
  if (std::memcmp(start.magic, ring_layout::kMagic, sizeof(start.magic)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a step ring"));
  }
  if (start.version != ring_layout::kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a step ring of version ",
                                                      start.version, ", this program reads ",
                                                      ring_layout::kVersion));
  }
  if (start.capacity == 0 || start.slot_bytes != sizeof(Slot) || start.file_bytes != file.size() ||
      ring_layout::FileBytes(start.capacity) != file.size()) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: its header tells of ",
                                            start.capacity, " records, its size is ", file.size(),
                                            " bytes"));
  }
  return start.capacity;
}

absl::Status WriteNewRing(int fd, uint32_t capacity) {
  const size_t bytes = ring_layout::FileBytes(capacity);
  // Reserves the space: a full file system is an error here instead of SIGBUS in the trainer.
  if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    return absl::ErrnoToStatus(error, "cannot reserve the space");
  }
  Start start = {};
  std::memcpy(start.magic, ring_layout::kMagic, sizeof(start.magic));
  start.version = ring_layout::kVersion;
  start.slot_bytes = sizeof(Slot);
  start.capacity = capacity;
  start.file_bytes = bytes;
  if (::pwrite(fd, &start, sizeof(start), 0) != ssize_t{sizeof(start)}) {
    return absl::ErrnoToStatus(errno, "cannot write the header");
  }
  return absl::OkStatus();
}

uint64_t BitsOf(float low, uint64_t high) {
  uint32_t bits;
  std::memcpy(&bits, &low, sizeof(bits));
  return high << 32 | bits;
}

float FloatOf(uint64_t word) {
  const auto bits = static_cast<uint32_t>(word);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Returns record number `n`, unless the slot holds another one or changes meanwhile.
std::optional<StepRecord> ReadSlot(const Slot& slot, uint64_t n) {
  const uint64_t whole = 2 * n + 2;
  if (slot.sequence.load(kAcquire) != whole) return std::nullopt;
  StepRecord record;
  record.step = slot.step.load(kAcquire);
  record.start_ns = slot.start_ns.load(kAcquire);
  record.total_ns = slot.total_ns.load(kAcquire);
  for (int i = 0; i < kPhases; ++i) record.phase_ns[i] = slot.phase_ns[i].load(kAcquire);
  record.samples = slot.samples.load(kAcquire);
  record.tokens = slot.tokens.load(kAcquire);
  record.wire_bytes = slot.wire_bytes.load(kAcquire);
  record.averaging_group_size = slot.averaging_group_size.load(kAcquire);
  const uint64_t workload_bits = slot.workload_bits.load(kAcquire);
  std::memcpy(&record.workload, &workload_bits, sizeof(workload_bits));
  const uint64_t loss_and_grad_norm = slot.loss_and_grad_norm_bits.load(kAcquire);
  record.loss = FloatOf(loss_and_grad_norm);
  record.grad_norm = FloatOf(loss_and_grad_norm >> 32);
  const uint64_t learning_rate_and_masked = slot.learning_rate_bits_and_masked.load(kAcquire);
  record.learning_rate = FloatOf(learning_rate_and_masked);
  record.masked = learning_rate_and_masked >> 32 != 0;
  if (slot.sequence.load(kRelaxed) != whole) return std::nullopt;
  return record;
}

void WriteSlot(Slot& slot, uint64_t n, const StepRecord& record) {
  slot.sequence.store(2 * n + 1, kRelaxed);
  slot.step.store(record.step, kRelease);
  slot.start_ns.store(record.start_ns, kRelease);
  slot.total_ns.store(record.total_ns, kRelease);
  for (int i = 0; i < kPhases; ++i) slot.phase_ns[i].store(record.phase_ns[i], kRelease);
  slot.samples.store(record.samples, kRelease);
  slot.tokens.store(record.tokens, kRelease);
  slot.wire_bytes.store(record.wire_bytes, kRelease);
  slot.averaging_group_size.store(record.averaging_group_size, kRelease);
  uint64_t workload_bits;
  std::memcpy(&workload_bits, &record.workload, sizeof(workload_bits));
  slot.workload_bits.store(workload_bits, kRelease);
  slot.loss_and_grad_norm_bits.store(BitsOf(record.loss, BitsOf(record.grad_norm, 0)), kRelease);
  slot.learning_rate_bits_and_masked.store(BitsOf(record.learning_rate, record.masked ? 1 : 0),
                                           kRelease);
  slot.sequence.store(2 * n + 2, kRelease);
}

struct LiveCopy {
  LivePhase live;
  uint64_t sequence = 0;
  bool whole = false;
};

LiveCopy ReadCell(const LiveCell& cell) {
  LiveCopy copy;
  copy.sequence = cell.sequence.load(kAcquire);
  const uint64_t step_and_phase = cell.step_and_phase.load(kAcquire);
  copy.live.since_ns = cell.since_ns.load(kAcquire);
  const uint64_t done_and_all = cell.done_and_all.load(kAcquire);
  copy.whole = copy.sequence % 2 == 0 && cell.sequence.load(kRelaxed) == copy.sequence;
  const uint64_t phase = step_and_phase & 0xff;
  const bool known = phase <= static_cast<uint64_t>(Phase::kEvaluating);
  copy.live.phase = known ? static_cast<Phase>(phase) : Phase::kIdle;
  copy.live.step = step_and_phase >> 8;
  if (copy.live.phase == Phase::kEvaluating) {
    copy.live.all = static_cast<uint32_t>(done_and_all);
    copy.live.done = std::min(static_cast<uint32_t>(done_and_all >> 32), copy.live.all);
  }
  return copy;
}

// Whether `copy` was the newest at some moment between the two reads: the other cell held the
// previous change, or was about to get the next one. Otherwise the writer was too fast.
bool IsNewest(const LiveCopy& copy, const LiveCopy& other) {
  return copy.whole &&
         (copy.sequence == other.sequence + 2 || copy.sequence + 1 == other.sequence ||
          (copy.sequence == 0 && other.sequence == 0));
}

}  // namespace

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kDataWait:
      return "data_wait";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kCommunication:
      return "communication";
    case Phase::kOptimizer:
      return "optimizer";
    case Phase::kAveraging:
      return "averaging";
    case Phase::kRoundWait:
      return "round_wait";
    case Phase::kEvaluating:
      return "evaluating";
  }
  return "unknown";
}

uint64_t MonotonicNanos() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

absl::Status CreateStepRing(const std::string& path, uint32_t capacity) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", temporary));
  absl::Status status = WriteNewRing(fd, capacity);
  ::close(fd);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, "cannot rename");
  }
  if (status.ok()) return status;
  ::unlink(temporary.c_str());
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<StepRingWriter> StepRingWriter::Open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(MappedFile file,
                            MappedFile::Open(path, MappedFile::Access::kReadWrite, kMaxBytes));
  PACELINE_RETURN_IF_ERROR(CheckRing(file, path).status());
  return StepRingWriter(std::move(file));
}

StepRingWriter::StepRingWriter(MappedFile file) : file_(std::move(file)) {
  const Ring& ring = RingOf(file_);
  written_ = ring.header.written.load(kRelaxed);
  uint64_t newest = 0;
  for (const LiveCell& cell : ring.live) newest = std::max(newest, cell.sequence.load(kRelaxed));
  live_changes_ = newest / 2;  // Redoes a change that a killed writer had begun.
}

void StepRingWriter::ShowLive(const LivePhase& live) {
  if (IsForkedChild()) return;
  const uint64_t change = ++live_changes_;
  LiveCell& cell = RingOf(file_).live[change % kLiveCells];
  cell.sequence.store(2 * change - 1, kRelaxed);
  cell.step_and_phase.store(live.step << 8 | static_cast<uint64_t>(live.phase), kRelease);
  cell.since_ns.store(live.since_ns, kRelease);
  cell.done_and_all.store(uint64_t{live.done} << 32 | live.all, kRelease);
  cell.sequence.store(2 * change, kRelease);
}

void StepRingWriter::Enter(Phase phase, uint64_t step) {
  const uint64_t now_ns = MonotonicNanos();
  if (in_step_) {
    current_.phase_ns[static_cast<int>(phase_)] += now_ns - phase_start_ns_;
  } else if (phase != Phase::kIdle) {
    in_step_ = true;
    current_ = StepRecord();
    current_.start_ns = now_ns;
  }
  phase_ = phase;
  phase_start_ns_ = now_ns;
  ShowLive({phase, step, now_ns});
}

void StepRingWriter::ShowEvaluation(uint64_t steps, uint32_t done, uint32_t all) {
  in_step_ = false;  // One that was cut off begins anew.
  if (phase_ != Phase::kEvaluating) {
    phase_ = Phase::kEvaluating;
    phase_start_ns_ = MonotonicNanos();
  }
  ShowLive({phase_, steps, phase_start_ns_, done, all});
}

StepRecord StepRingWriter::EndStep(uint64_t step) {
  const uint64_t now_ns = MonotonicNanos();
  if (in_step_) {
    current_.phase_ns[static_cast<int>(phase_)] += now_ns - phase_start_ns_;
  } else {
    current_ = StepRecord();
    current_.start_ns = now_ns;
  }
  in_step_ = false;
  current_.step = step;
  current_.total_ns = now_ns - current_.start_ns;
  phase_ = Phase::kIdle;
  phase_start_ns_ = now_ns;
  ShowLive({phase_, step + 1, now_ns});
  return current_;
}

void StepRingWriter::Append(const StepRecord& record) {
  if (IsForkedChild()) return;
  Ring& ring = RingOf(file_);
  WriteSlot(ring.slots[written_ % ring.header.capacity], written_, record);
  ring.header.written.store(++written_, kRelease);
}

void StepRingWriter::CountCollective() {
  if (!IsForkedChild()) RingOf(file_).header.collectives.fetch_add(1, kRelease);
}

void StepRingWriter::RoundCollectivesUp() {
  if (IsForkedChild()) return;
  std::atomic<uint64_t>& collectives = RingOf(file_).header.collectives;
  collectives.store((collectives.load(kRelaxed) / kMostOfEvaluation + 1) * kMostOfEvaluation,
                    kRelease);
}

void StepRingWriter::ResetCollectives() {
  if (!IsForkedChild()) RingOf(file_).header.collectives.store(1, kRelease);
}

absl::StatusOr<StepRingReader> StepRingReader::Open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(MappedFile file,
                            MappedFile::Open(path, MappedFile::Access::kRead, kMaxBytes));
  PACELINE_ASSIGN_OR_RETURN(const uint32_t capacity, CheckRing(file, path));
  return StepRingReader(std::move(file), capacity);
}

LivePhase StepRingReader::Live() const {
  const TruncationGuard guard(file_.data(), file_.size());
  const LivePhase live = ReadLive();
  return guard.truncated() ? LivePhase() : live;
}

LivePhase StepRingReader::ReadLive() const {
  const Ring& ring = RingOf(file_);
  for (int attempt = 0; attempt < kLiveAttempts; ++attempt) {
    const LiveCopy first = ReadCell(ring.live[0]);
    const LiveCopy second = ReadCell(ring.live[1]);
    if (IsNewest(first, second)) return first.live;
    if (IsNewest(second, first)) return second.live;
  }
  return LivePhase();
}

uint64_t StepRingReader::ReadWritten() const { return RingOf(file_).header.written.load(kAcquire); }

uint64_t StepRingReader::Written() const {
  const TruncationGuard guard(file_.data(), file_.size());
  return ReadWritten();
}

uint64_t StepRingReader::Collectives() const {
  const TruncationGuard guard(file_.data(), file_.size());
  return RingOf(file_).header.collectives.load(kAcquire);
}

StepRingReader::Batch StepRingReader::ReadFrom(uint64_t from) const {
  const TruncationGuard guard(file_.data(), file_.size());
  const Ring& ring = RingOf(file_);
  const uint64_t written = ReadWritten();
  Batch batch;
  batch.next = from;
  if (from >= written || written - from > kMaxAhead) return batch;
  batch.next = written;
  const uint64_t capacity = capacity_;
  const uint64_t first = std::max(from, written > capacity ? written - capacity : 0);
  batch.lost = first - from;
  batch.records.reserve(written - first);
  for (uint64_t n = first; n < written; ++n) {
    if (const auto record = ReadSlot(ring.slots[n % capacity], n)) {
      batch.records.push_back(*record);
    } else {
      ++batch.lost;
    }
  }
  return batch;
}

}  // namespace paceline
