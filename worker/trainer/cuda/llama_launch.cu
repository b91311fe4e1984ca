// A block handles one row, or some of a few rows. Sums within a block are added up in a fixed
// order, so equal inputs give equal bits.
#include <cfloat>

#include "worker/trainer/cuda/llama_launch.h"
#include "worker/trainer/model/bfloat16_bits.h"

namespace paceline {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;  // Per block.
constexpr int kWarps = kThreads / kWarp;
constexpr unsigned kAllLanes = 0xffffffff;
// Elements that a thread has loaded before it uses the first.
constexpr int kAtOnce = 4;

// Returns the sum of the threads' values in each thread. All threads of the block must call it.
__device__ float BlockSum(float value) {
  __shared__ float of_warp[kWarps];
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, lanes);
  }
  __syncthreads();  // All have read an earlier sum.
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += of_warp[warp];
  return sum;
}

// The greatest of the threads' values, of which none is NaN, in the same way.
__device__ float BlockMax(float value) {
  __shared__ float of_warp[kWarps];
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, lanes));
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  float largest = of_warp[0];
  for (int warp = 1; warp < kWarps; ++warp) largest = fmaxf(largest, of_warp[warp]);
  return largest;
}

template <typename T>
__global__ void NormalizeRow(const float* __restrict__ x, const float* __restrict__ weight,
                             int64_t dim, float epsilon, T* __restrict__ y,
                             float* __restrict__ scale) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * dim;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < dim; i += kThreads) squares += x[begin + i] * x[begin + i];
  const float s = 1 / sqrtf(BlockSum(squares) / static_cast<float>(dim) + epsilon);
  if (threadIdx.x == 0) scale[blockIdx.x] = s;
  for (int64_t i = threadIdx.x; i < dim; i += kThreads) {
    StoreFloat(x[begin + i] * s * weight[i], y + begin + i);
  }
}

template <typename T>
__global__ void NormalizeRowsBackward(const T* __restrict__ grad_y, const float* __restrict__ x,
                                      const float* __restrict__ weight,
                                      const float* __restrict__ scale, int64_t rows, int64_t dim,
                                      float* __restrict__ grad_x, float* __restrict__ partial) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsPerSum;
  const int count = static_cast<int>(rows - first < kRowsPerSum ? rows - first : kRowsPerSum);
  float s[kRowsPerSum] = {};
  float c[kRowsPerSum] = {};
#pragma unroll
  for (int row = 0; row < kRowsPerSum; ++row) {
    if (row >= count) break;  // The same for all threads.
    const int64_t begin = (first + row) * dim;
    float products = 0;
    for (int64_t i = threadIdx.x; i < dim; i += kThreads) {
      products += LoadFloat(grad_y[begin + i]) * weight[i] * x[begin + i];
    }
    s[row] = scale[first + row];
    c[row] = BlockSum(products) * s[row] * s[row] * s[row] / static_cast<float>(dim);
  }
  for (int64_t i = threadIdx.x; i < dim; i += kThreads) {
    const float w = weight[i];
    float sum = 0;
#pragma unroll
    for (int row = 0; row < kRowsPerSum; ++row) {
      if (row >= count) break;
      const int64_t at = (first + row) * dim + i;
      const float g = LoadFloat(grad_y[at]);
      grad_x[at] = s[row] * g * w - c[row] * x[at];
      sum += g * x[at] * s[row];
    }
    partial[static_cast<int64_t>(blockIdx.x) * dim + i] = sum;
  }
}

template <typename T>
__global__ void RotateRow(const T* __restrict__ x, const float* __restrict__ cos,
                          const float* __restrict__ sin, int64_t positions, int heads, int head_dim,
                          float direction, T* __restrict__ y) {
  const int half = head_dim / 2;
  const int64_t row = blockIdx.x;
  const float* const c = cos + row % positions * half;
  const float* const s = sin + row % positions * half;
  const int64_t begin = row * heads * head_dim;
  for (int pair = threadIdx.x; pair < heads * half; pair += kThreads) {
    const int i = pair % half;
    const int64_t low = begin + pair / half * head_dim + i;
    const int64_t high = low + half;
    const float turn = direction * s[i];
    const float a = LoadFloat(x[low]);
    const float b = LoadFloat(x[high]);
    StoreFloat(a * c[i] - b * turn, y + low);
    StoreFloat(b * c[i] + a * turn, y + high);
  }
}

template <typename T>
__global__ void Gate(const T* __restrict__ gate, const T* __restrict__ up, int64_t size,
                     T* __restrict__ y) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kAtOnce + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const int64_t i = first + k * kThreads;
    if (i >= size) break;
    const float g = LoadFloat(gate[i]);
    StoreFloat(g / (1 + expf(-g)) * LoadFloat(up[i]), y + i);
  }
}

template <typename T>
__global__ void GateBackward(const T* __restrict__ grad_y, const T* __restrict__ gate,
                             const T* __restrict__ up, int64_t size, T* __restrict__ grad_gate,
                             T* __restrict__ grad_up) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kAtOnce + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const int64_t i = first + k * kThreads;
    if (i >= size) break;
    const float grad = LoadFloat(grad_y[i]);
    const float g = LoadFloat(gate[i]);
    const float u = LoadFloat(up[i]);
    const float sigmoid = 1 / (1 + expf(-g));
    StoreFloat(grad * g * sigmoid, grad_up + i);
    StoreFloat(grad * u * sigmoid * (1 + g * (1 - sigmoid)), grad_gate + i);
  }
}

// One block for each row.
template <typename T>
__global__ void CrossEntropyOfRow(T* logits, int64_t classes, const int64_t* __restrict__ targets,
                                  const float* __restrict__ shares,
                                  float* __restrict__ log_probabilities) {
  T* const row = logits + static_cast<int64_t>(blockIdx.x) * classes;
  const int64_t target = targets[blockIdx.x];
  if (target < 0 || target >= classes) __trap();
  const float of_target = LoadFloat(row[target]);

  // Of this thread's elements: the greatest, and the sum of exp(x - greatest). NaN makes the sum
  // NaN, and so does infinity when the sums are put together.
  float largest = -FLT_MAX;
  float sum = 0;
  for (int64_t first = threadIdx.x; first < classes; first += kThreads * kAtOnce) {
    float x[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int64_t i = first + k * kThreads;
      x[k] = i < classes ? LoadFloat(row[i]) : 0;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kThreads >= classes) break;
      if (x[k] > largest) {
        sum = sum * expf(largest - x[k]) + 1;
        largest = x[k];
      } else {
        sum += expf(x[k] - largest);
      }
    }
  }
  const float top = BlockMax(largest);
  const float total = BlockSum(sum * expf(largest - top));
  const float log_probability = of_target - top - logf(total);
  if (threadIdx.x == 0) log_probabilities[blockIdx.x] = log_probability;
  if (shares == nullptr) return;

  // Beyond the sum's barriers: all threads have read the target's logit.
  const float share = shares[blockIdx.x];
  const float factor = share / total;
  for (int64_t first = threadIdx.x; first < classes; first += kThreads * kAtOnce) {
    float x[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int64_t i = first + k * kThreads;
      x[k] = i < classes ? LoadFloat(row[i]) : 0;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int64_t i = first + k * kThreads;
      if (i >= classes) break;
      const float gradient =
          i == target ? expm1f(log_probability) * share : expf(x[k] - top) * factor;
      StoreFloat(gradient, row + i);
    }
  }
}

// As many as hold `size` elements, of which a block takes `each`.
unsigned Blocks(int64_t size, int64_t each) {
  return static_cast<unsigned>((size + each - 1) / each);
}

template <typename T>
cudaError_t RmsNormOf(const float* x, const float* weight, int64_t rows, int64_t dim, float epsilon,
                      void* y, float* scale, cudaStream_t stream) {
  NormalizeRow<T><<<Blocks(rows, 1), kThreads, 0, stream>>>(x, weight, dim, epsilon,
                                                            static_cast<T*>(y), scale);
  return cudaGetLastError();
}

template <typename T>
cudaError_t RmsNormBackwardOf(const void* grad_y, const float* x, const float* weight,
                              const float* scale, int64_t rows, int64_t dim, float* grad_x,
                              float* partial, cudaStream_t stream) {
  NormalizeRowsBackward<T><<<Blocks(rows, kRowsPerSum), kThreads, 0, stream>>>(
      static_cast<const T*>(grad_y), x, weight, scale, rows, dim, grad_x, partial);
  return cudaGetLastError();
}

template <typename T>
cudaError_t RotateOf(const void* x, const float* cos, const float* sin, int64_t rows,
                     int64_t positions, int heads, int head_dim, float direction, void* y,
                     cudaStream_t stream) {
  RotateRow<T><<<Blocks(rows, 1), kThreads, 0, stream>>>(static_cast<const T*>(x), cos, sin,
                                                         positions, heads, head_dim, direction,
                                                         static_cast<T*>(y));
  return cudaGetLastError();
}

template <typename T>
cudaError_t SwiGluOf(const void* gate, const void* up, int64_t size, void* y, cudaStream_t stream) {
  Gate<T><<<Blocks(size, kThreads * kAtOnce), kThreads, 0, stream>>>(
      static_cast<const T*>(gate), static_cast<const T*>(up), size, static_cast<T*>(y));
  return cudaGetLastError();
}

template <typename T>
cudaError_t SwiGluBackwardOf(const void* grad_y, const void* gate, const void* up, int64_t size,
                             void* grad_gate, void* grad_up, cudaStream_t stream) {
  GateBackward<T><<<Blocks(size, kThreads * kAtOnce), kThreads, 0, stream>>>(
      static_cast<const T*>(grad_y), static_cast<const T*>(gate), static_cast<const T*>(up), size,
      static_cast<T*>(grad_gate), static_cast<T*>(grad_up));
  return cudaGetLastError();
}

template <typename T>
cudaError_t CrossEntropyOf(void* logits, int64_t rows, int64_t classes, const int64_t* targets,
                           const float* shares, float* log_probabilities, cudaStream_t stream) {
  CrossEntropyOfRow<T><<<Blocks(rows, 1), kThreads, 0, stream>>>(
      static_cast<T*>(logits), classes, targets, shares, log_probabilities);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchRmsNorm(Element element, const float* x, const float* weight, int64_t rows,
                          int64_t dim, float epsilon, void* y, float* scale, cudaStream_t stream) {
  return element == Element::kFloat
             ? RmsNormOf<float>(x, weight, rows, dim, epsilon, y, scale, stream)
             : RmsNormOf<uint16_t>(x, weight, rows, dim, epsilon, y, scale, stream);
}

cudaError_t LaunchRmsNormBackward(Element element, const void* grad_y, const float* x,
                                  const float* weight, const float* scale, int64_t rows,
                                  int64_t dim, float* grad_x, float* partial, cudaStream_t stream) {
  return element == Element::kFloat ? RmsNormBackwardOf<float>(grad_y, x, weight, scale, rows, dim,
                                                               grad_x, partial, stream)
                                    : RmsNormBackwardOf<uint16_t>(grad_y, x, weight, scale, rows,
                                                                  dim, grad_x, partial, stream);
}

cudaError_t LaunchRotate(Element element, const void* x, const float* cos, const float* sin,
                         int64_t rows, int64_t positions, int heads, int head_dim, float direction,
                         void* y, cudaStream_t stream) {
  return element == Element::kFloat
             ? RotateOf<float>(x, cos, sin, rows, positions, heads, head_dim, direction, y, stream)
             : RotateOf<uint16_t>(x, cos, sin, rows, positions, heads, head_dim, direction, y,
                                  stream);
}

cudaError_t LaunchSwiGlu(Element element, const void* gate, const void* up, int64_t size, void* y,
                         cudaStream_t stream) {
  return element == Element::kFloat ? SwiGluOf<float>(gate, up, size, y, stream)
                                    : SwiGluOf<uint16_t>(gate, up, size, y, stream);
}

cudaError_t LaunchSwiGluBackward(Element element, const void* grad_y, const void* gate,
                                 const void* up, int64_t size, void* grad_gate, void* grad_up,
                                 cudaStream_t stream) {
  return element == Element::kFloat
             ? SwiGluBackwardOf<float>(grad_y, gate, up, size, grad_gate, grad_up, stream)
             : SwiGluBackwardOf<uint16_t>(grad_y, gate, up, size, grad_gate, grad_up, stream);
}

cudaError_t LaunchCrossEntropy(Element element, void* logits, int64_t rows, int64_t classes,
                               const int64_t* targets, const float* shares,
                               float* log_probabilities, cudaStream_t stream) {
  return element == Element::kFloat ? CrossEntropyOf<float>(logits, rows, classes, targets, shares,
                                                            log_probabilities, stream)
                                    : CrossEntropyOf<uint16_t>(logits, rows, classes, targets,
                                                               shares, log_probabilities, stream);
}

}  // namespace paceline
