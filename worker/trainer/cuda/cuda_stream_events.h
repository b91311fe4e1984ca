// CUDA events with timing, for telemetry/cuda_step_timer.h.
#ifndef WORKER_TRAINER_CUDA_CUDA_STREAM_EVENTS_H_
#define WORKER_TRAINER_CUDA_CUDA_STREAM_EVENTS_H_

#include <memory>

#include "worker/trainer/telemetry/cuda_step_timer.h"

namespace paceline {

// Makes events on the current device. Torch's exceptions pass through.
std::unique_ptr<StreamEvents> MakeCudaStreamEvents();

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_STREAM_EVENTS_H_
