#include "worker/trainer/comm/cuda_platform.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <net/if.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/trainer/cuda/cuda_device_streams.h"
#include "worker/trainer/cuda/cuda_host_copy.h"
#include "worker/trainer/cuda/cuda_memory.h"
#include "worker/trainer/cuda/cuda_step_graph.h"
#include "worker/trainer/cuda/cuda_stream_events.h"

namespace paceline {
namespace {

// Each channel occupies a multiprocessor, of 108 (A100) to 148 (B200), during a collective.
constexpr int kFewChannels = 4;

// Call before the first communicator. Overwrites only the first variable if it is already set.
void SetUpNccl(const TrainerConfig& config) {
  // On an error, abort the communicators but keep the process, which must report why it ends.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", /*overwrite=*/1);
  // The watchdog waits four times this long before it aborts, for a dump that we do not use: by
  // default the survivors of a dead peer hang for a minute.
  setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", /*overwrite=*/0);
  setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "250", /*overwrite=*/0);
  // "=" means exactly this name, not a prefix.
  if (if_nametoindex(config.interface.c_str()) != 0) {
    setenv("NCCL_SOCKET_IFNAME", absl::StrCat("=", config.interface).c_str(), /*overwrite=*/0);
  }
}

}  // namespace

absl::StatusOr<c10::Device> CudaPlatform::OpenDevice(const TrainerConfig& config) {
  if (!config.cuda) {
    return absl::InvalidArgumentError(
        "the job asks for CPUs, but this is the trainer for CUDA; start it with the CPU trainer");
  }
  const int gpus = c10::cuda::device_count();
  if (config.slot >= gpus) {
    return absl::InvalidArgumentError(absl::StrCat("the job asks for GPU ", config.slot,
                                                   ", but this node has ", gpus, " usable ones"));
  }
  device_ = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(config.slot));
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::set_device(device_.index());
  SetUpNccl(config);
  return device_;
}

c10::intrusive_ptr<c10d::Backend> CudaPlatform::Connect(
    const TrainerConfig& config, const Membership& membership,
    const c10::intrusive_ptr<c10d::Store>& store, absl::Duration timeout) {
  if (membership.on_host) return gloo_.Connect(config, membership, store, timeout);
  c10::cuda::set_device(device_.index());  // The calling thread may be new.
  auto options = c10d::ProcessGroupNCCL::Options::create(membership.high_priority);
  options->timeout = absl::ToChronoMilliseconds(timeout);
  // Blocking mode: returns when the communicator is ready. (The other mode hung in NCCL 2.26:
  // PyTorch issue 153960.) NCCL chooses the number of channels: no computation runs beside an
  // average of parameters, and the best number for gradients depends on the machine.
  options->config.blocking = 1;
  if (membership.few_channels) {
    options->config.minCTAs = 1;
    options->config.maxCTAs = kFewChannels;
  }
  auto backend =
      c10::make_intrusive<c10d::ProcessGroupNCCL>(store, membership.rank, membership.size, options);
  backend->setBoundDeviceId(device_);
  backend->eagerConnectSingleDevice(device_);
  return backend;
}

std::string CudaPlatform::DeviceName() const {
  return at::cuda::getDeviceProperties(device_.index())->name;
}

std::unique_ptr<StepTimer> CudaPlatform::MakeStepTimer(StepRingWriter& ring) {
  return std::make_unique<CudaStepTimer>(ring, MakeCudaStreamEvents());
}

std::optional<DeviceMemory> CudaPlatform::Memory() const { return ReadDeviceMemory(device_); }

void CudaPlatform::StartMemoryFigures() {
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetAccumulatedStats(device_.index());
  ResetMemoryPeaks();
}

void CudaPlatform::ResetMemoryPeaks() {
  c10::cuda::CUDACachingAllocator::resetPeakStats(device_.index());
}

void CudaPlatform::RecordMemory(bool on) { RecordDeviceMemory(on); }

absl::Status CudaPlatform::SnapshotMemory(const std::string& path) {
  return SnapshotDeviceMemory(path);
}

std::string CudaPlatform::DescribeOutOfMemory(const std::string& path) {
  return device_.is_cuda() ? DescribeDeviceOutOfMemory(device_, path) : "";
}

std::unique_ptr<StepGraph> CudaPlatform::MakeStepGraph() { return MakeCudaStepGraph(); }

std::unique_ptr<DeviceStreams> CudaPlatform::MakeDeviceStreams() {
  return MakeCudaDeviceStreams(device_);
}

std::unique_ptr<HostCopy> CudaPlatform::StartHostCopy(const std::vector<HostCopyPiece>& pieces) {
  return StartCudaHostCopy(pieces);
}

void CudaPlatform::PinHostMemory(void* memory, size_t bytes) {
  c10::cuda::set_device(device_.index());  // The calling thread may be new.
  if (PinMemory(memory, bytes)) return;
  PACELINE_LOG(WARNING) << "host_memory_not_pinned bytes=" << bytes
                        << ": saving will hold up the training";
}

void CudaPlatform::UnpinHostMemory(void* memory) { UnpinMemory(memory); }

}  // namespace paceline
