#include "worker/trainer/cuda/cuda_host_copy.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <deque>

namespace paceline {
namespace {

// Bytes between two marks: about a millisecond of copying.
constexpr size_t kMarkBytes = 32 << 20;
// Waiting threads sleep instead of taking a core from the training.
constexpr unsigned int kSleepingEvent = cudaEventDisableTiming | cudaEventBlockingSync;

// Whether CUDA does not know the memory, so that nothing in a stream can be writing to it.
bool IsPageable(const void* memory) {
  cudaPointerAttributes attributes;
  C10_CUDA_CHECK(cudaPointerGetAttributes(&attributes, memory));
  return attributes.type == cudaMemoryTypeUnregistered;
}

class CudaHostCopy : public HostCopy {
 public:
  explicit CudaHostCopy(const std::vector<HostCopyPiece>& pieces)
      : stream_(c10::cuda::getStreamFromPool()) {
    c10::cuda::CUDAEvent before;
    before.record(c10::cuda::getCurrentCUDAStream());
    before.block(stream_);
    size_t end = 0;
    for (const HostCopyPiece& piece : pieces) {
      // The state of random numbers, and the step counts of a script's optimizer: CUDA would copy
      // them after the pieces before them, and have this thread wait.
      if (piece.bytes > 0 && IsPageable(piece.from)) {
        std::memcpy(piece.to, piece.from, piece.bytes);
        end += piece.bytes;
        continue;
      }
      for (size_t at = 0; at < piece.bytes; at += kMarkBytes) {
        const size_t bytes = std::min(kMarkBytes, piece.bytes - at);
        C10_CUDA_CHECK(
            cudaMemcpyAsync(piece.to + at, piece.from + at, bytes, cudaMemcpyDefault, stream_));
        end += bytes;
        if (end - (marks_.empty() ? 0 : marks_.back().end) >= kMarkBytes) MarkAt(end);
      }
    }
    MarkAt(end);
  }

  // The pieces may be freed afterwards.
  ~CudaHostCopy() override {
    try {
      marks_.back().event.synchronize();
    } catch (const c10::Error&) {
      // The device has failed: nothing is copied any longer.
    }
  }

  void BeforeChange() override { marks_.back().event.block(c10::cuda::getCurrentCUDAStream()); }

  void Wait(size_t bytes) override {
    const auto mark = std::find_if(marks_.begin(), marks_.end(),
                                   [bytes](const Mark& one) { return one.end >= bytes; });
    mark->event.synchronize();
  }

 private:
  struct Mark {
    size_t end;  // Bytes copied when the event has passed.
    c10::cuda::CUDAEvent event;
  };

  void MarkAt(size_t end) {
    marks_.push_back({end, c10::cuda::CUDAEvent(kSleepingEvent)});
    marks_.back().event.record(stream_);
  }

  const c10::cuda::CUDAStream stream_;
  std::deque<Mark> marks_;  // Never empty. Sorted by `end`; the last mark follows all bytes.
};

}  // namespace

std::unique_ptr<HostCopy> StartCudaHostCopy(const std::vector<HostCopyPiece>& pieces) {
  return std::make_unique<CudaHostCopy>(pieces);
}

bool PinMemory(void* memory, size_t bytes) {
  if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess) return true;
  cudaGetLastError();  // Otherwise torch's next call would report the error.
  return false;
}

void UnpinMemory(void* memory) {
  if (cudaHostUnregister(memory) != cudaSuccess) cudaGetLastError();
}

}  // namespace paceline
