#include "worker/daemon/trainers/ring_tail.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/core/status_macros.h"

namespace paceline {
namespace {

static_assert(static_cast<int>(Phase::kIdle) == v1::IDLE);
static_assert(static_cast<int>(Phase::kDataWait) == v1::DATA_WAIT);
static_assert(static_cast<int>(Phase::kForward) == v1::FORWARD);
static_assert(static_cast<int>(Phase::kBackward) == v1::BACKWARD);
static_assert(static_cast<int>(Phase::kCommunication) == v1::COMMUNICATION);
static_assert(static_cast<int>(Phase::kOptimizer) == v1::OPTIMIZER);
static_assert(static_cast<int>(Phase::kAveraging) == v1::AVERAGING);
static_assert(static_cast<int>(Phase::kRoundWait) == v1::ROUND_WAIT);
static_assert(static_cast<int>(Phase::kEvaluating) == v1::EVALUATING);
static_assert(kPhases + 1 == v1::Phase_ARRAYSIZE);

constexpr double kNanosPerSecond = 1e9;

// The trainer's process or its user may write anything. A record beyond these limits is invalid;
// sums of values within them fit into 64 bits.
constexpr uint64_t kMaxStepNanos = uint64_t{7} * 24 * 3600 * 1'000'000'000;  // A week.
constexpr uint64_t kMaxCount = uint64_t{1} << 48;  // Of samples, tokens, bytes and the like.

bool IsPlausible(const StepRecord& record) {
  bool plausible = record.total_ns <= kMaxStepNanos && record.start_ns <= uint64_t{INT64_MAX} / 2 &&
                   record.step <= kMaxCount && record.samples <= kMaxCount &&
                   record.tokens <= kMaxCount && record.wire_bytes <= kMaxCount &&
                   record.averaging_group_size <= uint64_t{INT32_MAX};
  for (const uint64_t ns : record.phase_ns) plausible = plausible && ns <= kMaxStepNanos;
  return plausible;
}

absl::Time AtNanos(uint64_t ns) {
  return absl::UnixEpoch() + absl::Nanoseconds(static_cast<int64_t>(ns));
}

int64_t PhaseNanos(const StepRecord& record, Phase phase) {
  return static_cast<int64_t>(record.phase_ns[static_cast<size_t>(phase)]);
}

v1::StepRecord ToProto(const StepRecord& record) {
  v1::StepRecord proto;
  proto.set_step(static_cast<int64_t>(record.step));
  proto.set_data_wait_ns(PhaseNanos(record, Phase::kDataWait));
  proto.set_forward_ns(PhaseNanos(record, Phase::kForward));
  proto.set_backward_ns(PhaseNanos(record, Phase::kBackward));
  proto.set_communication_ns(PhaseNanos(record, Phase::kCommunication));
  proto.set_optimizer_ns(PhaseNanos(record, Phase::kOptimizer));
  proto.set_total_ns(static_cast<int64_t>(record.total_ns));
  proto.set_samples(static_cast<int64_t>(record.samples));
  proto.set_loss(record.loss);
  proto.set_averaging_ns(PhaseNanos(record, Phase::kAveraging));
  proto.set_averaging_group_size(static_cast<int32_t>(record.averaging_group_size));
  proto.set_wire_bytes(static_cast<int64_t>(record.wire_bytes));
  proto.set_tokens(static_cast<int64_t>(record.tokens));
  proto.set_workload(record.workload);
  proto.set_grad_norm(record.grad_norm);
  proto.set_learning_rate(record.learning_rate);
  proto.set_masked(record.masked);
  proto.set_round_wait_ns(PhaseNanos(record, Phase::kRoundWait));
  return proto;
}

}  // namespace

absl::StatusOr<RingTail> RingTail::Open(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(StepRingReader reader, StepRingReader::Open(path));
  RingTail tail(std::move(reader));
  tail.Poll();
  tail.dropped_ = 0;  // Records from before the start are not a loss.
  return tail;
}

RingTail::RingTail(StepRingReader reader) : reader_(std::move(reader)) {}

void RingTail::Poll() {
  const StepRingReader::Batch batch = reader_.ReadFrom(next_);
  next_ = batch.next;
  dropped_ += static_cast<int64_t>(batch.lost);
  for (const StepRecord& record : batch.records) {
    if (!IsPlausible(record)) {
      ++dropped_;
      continue;
    }
    rate_.Add(AtNanos(record.start_ns + record.total_ns),
              absl::Nanoseconds(static_cast<int64_t>(record.total_ns)),
              static_cast<int64_t>(record.samples));
    for (size_t i = 0; i < phase_ns_.size(); ++i) phase_ns_[i] += record.phase_ns[i];
    kept_.push_back(record);
    last_ = record;
  }
  for (; kept_.size() > kMaxKept; kept_.pop_front()) ++dropped_;
}

v1::Progress RingTail::Progress(uint64_t now_ns) const {
  const LivePhase live = reader_.Live();
  v1::Progress progress;
  progress.set_step(static_cast<int64_t>(live.step));
  progress.set_phase(static_cast<v1::Phase>(live.phase));
  progress.set_evaluated_batches(live.done);
  progress.set_evaluation_batches(live.all);
  progress.set_collectives(static_cast<int64_t>(std::min(reader_.Collectives(), kMaxCount)));
  if (live.since_ns > 0 && now_ns > live.since_ns) {
    progress.set_phase_s(static_cast<double>(now_ns - live.since_ns) / kNanosPerSecond);
  }
  if (last_.has_value()) {
    progress.set_loss(last_->loss);
    progress.set_step_s(static_cast<double>(last_->total_ns) / kNanosPerSecond);
  }
  progress.set_samples_per_s(rate_.PerSecond(AtNanos(now_ns)));
  return progress;
}

std::optional<v1::StepBatch> RingTail::TakeBatch() {
  if (kept_.empty()) return std::nullopt;
  v1::StepBatch batch;
  const size_t count = std::min(kept_.size(), kMaxBatch);
  batch.mutable_records()->Reserve(static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) {
    *batch.add_records() = ToProto(kept_.front());
    kept_.pop_front();
  }
  return batch;
}

}  // namespace paceline
