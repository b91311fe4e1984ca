#include "worker/trainer/telemetry/cuda_step_timer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline {
namespace {

constexpr int64_t kLoss = 0;
constexpr int64_t kGradNorm = 1;
constexpr int64_t kScalars = 2;

void CopyTo(const at::Tensor& host, int64_t index, const at::Tensor& scalar) {
  host[index].copy_(scalar.detach(), /*non_blocking=*/true);
}

}  // namespace

CudaStepTimer::CudaStepTimer(StepRingWriter& ring, std::unique_ptr<StreamEvents> events,
                             std::function<uint64_t()> clock)
    : ring_(ring), events_(std::move(events)), clock_(std::move(clock)) {}

void CudaStepTimer::DoEnter(Phase phase, int64_t step) {
  ring_.Enter(phase, static_cast<uint64_t>(step));
  if (phase == Phase::kIdle && current_.marks.empty()) return;
  const uint64_t now = clock_();
  const std::optional<StreamEvents::Event> event = events_->Record();
  if (!event) return;
  if (current_.marks.empty()) current_.asked_ns = now;
  current_.marks.push_back({phase, *event});
}

void CudaStepTimer::EndStep(const StepResult& result) {
  ring_.EndStep(static_cast<uint64_t>(result.step));
  Step step = std::exchange(current_, {});
  DescribeStep(result, &step.record);
  if (free_scalars_.empty()) free_scalars_.push_back(events_->HostFloats(kScalars));
  step.scalars = std::move(free_scalars_.back());
  free_scalars_.pop_back();
  CopyTo(step.scalars, kLoss, result.loss);
  step.has_grad_norm = result.grad_norm.defined();
  if (step.has_grad_norm) CopyTo(step.scalars, kGradNorm, result.grad_norm);
  if (step.marks.empty()) step.asked_ns = clock_();
  const std::optional<StreamEvents::Event> end = events_->Record();
  TORCH_CHECK(end, "a step cannot end within a CUDA graph");
  step.end = *end;
  ended_.push_back(std::move(step));
  Collect();
}

std::vector<StepRecord> CudaStepTimer::TakeFinished() {
  Collect();
  return std::exchange(finished_, {});
}

void CudaStepTimer::Flush() {
  while (!ended_.empty()) {
    events_->Wait(ended_.front().end);
    FinishOldest();
  }
}

void CudaStepTimer::Collect() {
  while (!ended_.empty() && events_->HasPassed(ended_.front().end)) FinishOldest();
}

void CudaStepTimer::FinishOldest() {
  Step step = std::move(ended_.front());
  ended_.pop_front();
  StepRecord& record = step.record;
  for (size_t i = 0; i < step.marks.size(); ++i) {
    const StreamEvents::Event next = i + 1 < step.marks.size() ? step.marks[i + 1].event : step.end;
    const uint64_t nanos = events_->NanosBetween(step.marks[i].event, next);
    record.phase_ns[static_cast<size_t>(step.marks[i].phase)] += nanos;
    record.total_ns += nanos;
  }
  record.start_ns = StartOf(step, record.total_ns);
  record.loss = step.scalars[kLoss].item<float>();
  record.grad_norm = step.has_grad_norm ? step.scalars[kGradNorm].item<float>() : NAN;
  ring_.Append(record);
  finished_.push_back(record);

  if (anchor_) events_->Release(*anchor_);
  anchor_ = step.marks.empty() ? step.end : step.marks.front().event;
  anchor_ns_ = record.start_ns;
  for (size_t i = 1; i < step.marks.size(); ++i) events_->Release(step.marks[i].event);
  if (!step.marks.empty()) events_->Release(step.end);
  free_scalars_.push_back(std::move(step.scalars));
}

uint64_t CudaStepTimer::StartOf(const Step& step, uint64_t total_ns) {
  if (!anchor_) return step.asked_ns;
  const StreamEvents::Event first = step.marks.empty() ? step.end : step.marks.front().event;
  const uint64_t by_device = anchor_ns_ + events_->NanosBetween(*anchor_, first);
  const uint64_t seen_ns = clock_();
  const uint64_t latest = seen_ns > total_ns ? seen_ns - total_ns : 0;
  return std::max(step.asked_ns, std::min(by_device, latest));
}

}  // namespace paceline
