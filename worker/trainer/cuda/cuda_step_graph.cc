#include "worker/trainer/cuda/cuda_step_graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace paceline {
namespace {

// As PyTorch's guide to graphs advises: cuBLAS, autograd and the optimizer initialise meanwhile.
constexpr int kEagerSteps = 3;

class CudaStepGraph : public StepGraph {
 public:
  CudaStepGraph() : stream_(c10::cuda::getStreamFromPool()) {}

  void Run(const std::function<void()>& step) override {
    if (eager_steps_ < kEagerSteps) {
      RunAside(step);
      ++eager_steps_;
      return;
    }
    if (!recorded_) {
      Record(step);
      recorded_ = true;
    }
    graph_.replay();
  }

  bool recorded() const override { return recorded_; }

 private:
  // Runs `step` on the side stream, ordered between earlier and later work of the current stream.
  void RunAside(const std::function<void()>& step) {
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
    before_.record(current);
    before_.block(stream_);
    {
      const c10::cuda::CUDAStreamGuard aside(stream_);
      step();
      after_.record(stream_);
    }
    after_.block(current);
  }

  void Record(const std::function<void()>& step) {
    // The graph has separate memory: first give back what the eager steps left.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const c10::cuda::CUDAStreamGuard aside(stream_);
    // Thread-local: other threads (loaders, watchdogs) may allocate and query meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      step();
    } catch (...) {
      Abandon();
      throw;
    }
    graph_.capture_end();
  }

  // Ends a failed capture, so that the stream can be used again.
  void Abandon() noexcept {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      // Report the first error, not this one.
    }
  }

  const c10::cuda::CUDAStream stream_;
  c10::cuda::CUDAEvent before_;
  c10::cuda::CUDAEvent after_;
  at::cuda::CUDAGraph graph_;
  int eager_steps_ = 0;
  bool recorded_ = false;
};

}  // namespace

std::unique_ptr<StepGraph> MakeCudaStepGraph() { return std::make_unique<CudaStepGraph>(); }

}  // namespace paceline
