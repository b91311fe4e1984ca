// The caching allocator of a GPU: figures, records, snapshots.
//
// Thread-safe. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_CUDA_CUDA_MEMORY_H_
#define WORKER_TRAINER_CUDA_CUDA_MEMORY_H_

#include <c10/core/Device.h>

#include <string>

#include "absl/status/status.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

DeviceMemory ReadDeviceMemory(c10::Device device);

// Starts or stops recording the latest allocations and releases, each with its C++ stack.
void RecordDeviceMemory(bool on);

// Writes current allocations, and the record if there is one, for PyTorch's memory viewer
// (https://pytorch.org/memory_viz). Errors as for WriteFileAtomically.
absl::Status SnapshotDeviceMemory(const std::string& path);

// See Platform::DescribeOutOfMemory.
std::string DescribeDeviceOutOfMemory(c10::Device device, const std::string& path);

// The text that DescribeDeviceOutOfMemory uses for these figures.
std::string DescribeDeviceMemory(const DeviceMemory& memory);

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_MEMORY_H_
