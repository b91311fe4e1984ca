#include "worker/trainer/comm/cuda_platform.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "absl/strings/str_cat.h"

namespace paceline {

absl::StatusOr<c10::Device> CudaPlatform::OpenDevice(const TrainerConfig& config) {
  if (!config.cuda) {
    return absl::InvalidArgumentError(
        "the job asks for CPUs, but this is the trainer for CUDA; start it with the CPU trainer");
  }
  const int gpus = c10::cuda::device_count();
  if (config.place >= gpus) {
    return absl::InvalidArgumentError(absl::StrCat("the job asks for GPU ", config.place,
                                                   ", but this node has ", gpus, " usable ones"));
  }
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(config.place));
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::set_device(device.index());
  return device;
}

c10::intrusive_ptr<c10d::Backend> CudaPlatform::Connect(
    const TrainerConfig& config, const c10::intrusive_ptr<c10d::Store>& store,
    absl::Duration timeout) {
  // On an error abort the communicators but keep the process: it has to say why it ends.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", /*overwrite=*/1);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = absl::ToChronoMilliseconds(timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, config.rank(), config.world_size,
                                                     options);
}

}  // namespace paceline
