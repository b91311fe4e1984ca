// Copies from a GPU to pinned host memory, on a stream beside the training's.
#ifndef WORKER_TRAINER_CUDA_CUDA_HOST_COPY_H_
#define WORKER_TRAINER_CUDA_CUDA_HOST_COPY_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "worker/trainer/comm/host_copy.h"

namespace paceline {

// Copies from the current device after the work so far on its current stream. Never waits for the
// device if the host memory is pinned. Torch's exceptions pass through.
std::unique_ptr<HostCopy> StartCudaHostCopy(const std::vector<HostCopyPiece>& pieces);

// False when the driver refuses: copies to this memory then wait for the device.
bool PinMemory(void* memory, size_t bytes);
void UnpinMemory(void* memory);

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_HOST_COPY_H_
