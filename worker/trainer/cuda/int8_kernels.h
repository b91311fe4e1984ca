// The kernels of the int8 codec, without torch: nvcc cannot read torch's headers.
//
// All pointers are to memory of the current device. The functions launch on `stream`, wait for
// nothing, and return the launch's error.
#ifndef WORKER_TRAINER_CUDA_INT8_KERNELS_H_
#define WORKER_TRAINER_CUDA_INT8_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace paceline {

// Same as in int8_codec.h.
inline constexpr int kInt8KernelRow = 512;

// Does Int8Codec::Encode on `count` > 0 values.
cudaError_t LaunchInt8Encode(const float* value, float* error, int8_t* quantized, float* scales,
                             int64_t count, cudaStream_t stream);

// Does Int8Codec::AddDecoded.
cudaError_t LaunchInt8AddDecoded(const int8_t* quantized, const float* scales, float factor,
                                 float* sum, int64_t count, cudaStream_t stream);

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_INT8_KERNELS_H_
