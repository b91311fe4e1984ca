#include "worker/trainer/cuda/cuda_device_streams.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>

namespace paceline {
namespace {

// Waiting threads sleep instead of taking a core from the training.
constexpr unsigned int kSleepingEvent = cudaEventDisableTiming | cudaEventBlockingSync;

class CudaDeviceStreams : public DeviceStreams {
 public:
  explicit CudaDeviceStreams(c10::Device device) : device_(device) {
    // Created here, so that threads later only read them.
    for (int i = 0; i < kEvents; ++i) {
      events_.emplace_back(kSleepingEvent);
      events_.back().create(device.index());
    }
  }

  std::unique_ptr<Aside> GoAside() override { return std::make_unique<CudaAside>(device_); }
  void Record(Event event) override { At(event).record(c10::cuda::getCurrentCUDAStream()); }
  void StartAfter(Event event) override { At(event).block(c10::cuda::getCurrentCUDAStream()); }
  void Wait(Event event) override { At(event).synchronize(); }

 private:
  class CudaAside : public Aside {
   public:
    explicit CudaAside(c10::Device device)
        : guard_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index())) {}

   private:
    const c10::cuda::CUDAStreamGuard guard_;
  };

  c10::cuda::CUDAEvent& At(Event event) { return events_[static_cast<size_t>(event)]; }

  const c10::Device device_;
  std::deque<c10::cuda::CUDAEvent> events_;
};

}  // namespace

std::unique_ptr<DeviceStreams> MakeCudaDeviceStreams(c10::Device device) {
  return std::make_unique<CudaDeviceStreams>(device);
}

}  // namespace paceline
