// The kernels of a Llama's loops (model/llama_kernels.h), without torch: nvcc cannot read torch's
// headers.
//
// All pointers are to memory of the current device; void is an array of `Element`. Sizes are above
// 0. The functions launch on `stream`, wait for nothing, and return the launch's error.
#ifndef WORKER_TRAINER_CUDA_LLAMA_LAUNCH_H_
#define WORKER_TRAINER_CUDA_LLAMA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace paceline {

enum class Element { kFloat, kBfloat16 };

// Does LlamaKernels::RmsNorm.
cudaError_t LaunchRmsNorm(Element element, const float* x, const float* weight, int64_t rows,
                          int64_t dim, float epsilon, void* y, float* scale, cudaStream_t stream);

// Rows of which a block sums up the weight's gradient.
inline constexpr int64_t kRowsPerSum = 4;

// Does LlamaKernels::RmsNormBackward but for the sum over `partial`, [rows / kRowsPerSum, rounded
// up, dim], the parts of the weight's gradient.
cudaError_t LaunchRmsNormBackward(Element element, const void* grad_y, const float* x,
                                  const float* weight, const float* scale, int64_t rows,
                                  int64_t dim, float* grad_x, float* partial, cudaStream_t stream);

// Does LlamaKernels::Rotate: `rows` is batch * positions.
cudaError_t LaunchRotate(Element element, const void* x, const float* cos, const float* sin,
                         int64_t rows, int64_t positions, int heads, int head_dim, float direction,
                         void* y, cudaStream_t stream);

// Does LlamaKernels::SwiGlu.
cudaError_t LaunchSwiGlu(Element element, const void* gate, const void* up, int64_t size, void* y,
                         cudaStream_t stream);

// Does LlamaKernels::SwiGluBackward.
cudaError_t LaunchSwiGluBackward(Element element, const void* grad_y, const void* gate,
                                 const void* up, int64_t size, void* grad_gate, void* grad_up,
                                 cudaStream_t stream);

// Does LlamaKernels::CrossEntropy. `shares` may be null.
cudaError_t LaunchCrossEntropy(Element element, void* logits, int64_t rows, int64_t classes,
                               const int64_t* targets, const float* shares,
                               float* log_probabilities, cudaStream_t stream);

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_LLAMA_LAUNCH_H_
