// The kernels of the row codec, without torch: nvcc cannot read torch's headers.
//
// All pointers are to memory of the current device. The functions launch on `stream`, wait for
// nothing, and return the launch's error.
#ifndef WORKER_TRAINER_CUDA_ROW_KERNELS_H_
#define WORKER_TRAINER_CUDA_ROW_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/trainer/comm/row_formats.h"

namespace paceline {

// Does RowCodec::Encode on `count` > 0 values.
cudaError_t LaunchRowEncode(RowFormat format, const float* value, float* error, void* codes,
                            float* scales, int64_t count, cudaStream_t stream);

// Does RowCodec::AddDecoded.
cudaError_t LaunchRowAddDecoded(RowFormat format, const void* codes, const float* scales,
                                float factor, float* sum, int64_t count, cudaStream_t stream);

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_ROW_KERNELS_H_
