#include "worker/trainer/cuda/cuda_stream_events.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <deque>
#include <vector>

namespace paceline {
namespace {

constexpr double kNanosPerMilli = 1e6;

class CudaStreamEvents : public StreamEvents {
 public:
  std::optional<Event> Record() override {
    if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) {
      return std::nullopt;
    }
    if (free_.empty()) {
      free_.push_back(static_cast<Event>(events_.size()));
      events_.emplace_back(cudaEventDefault);  // With timing, unlike torch's default.
    }
    const Event event = free_.back();
    free_.pop_back();
    At(event).record();
    return event;
  }

  bool HasPassed(Event event) override { return At(event).query(); }
  void Wait(Event event) override { At(event).synchronize(); }

  uint64_t NanosBetween(Event from, Event to) override {
    const double nanos = static_cast<double>(At(from).elapsed_time(At(to))) * kNanosPerMilli;
    return nanos > 0 ? static_cast<uint64_t>(nanos) : 0;
  }

  void Release(Event event) override { free_.push_back(event); }

  at::Tensor HostFloats(int64_t count) override {
    return at::empty({count}, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
  }

 private:
  c10::cuda::CUDAEvent& At(Event event) { return events_[static_cast<size_t>(event)]; }

  std::deque<c10::cuda::CUDAEvent> events_;
  std::vector<Event> free_;
};

}  // namespace

std::unique_ptr<StreamEvents> MakeCudaStreamEvents() {
  return std::make_unique<CudaStreamEvents>();
}

}  // namespace paceline
