// A GPU's streams and events, for comm/device_streams.h.
#ifndef WORKER_TRAINER_CUDA_CUDA_DEVICE_STREAMS_H_
#define WORKER_TRAINER_CUDA_CUDA_DEVICE_STREAMS_H_

#include <c10/core/Device.h>

#include <memory>

#include "worker/trainer/comm/device_streams.h"

namespace paceline {

std::unique_ptr<DeviceStreams> MakeCudaDeviceStreams(c10::Device device);

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_DEVICE_STREAMS_H_
