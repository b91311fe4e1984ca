// Each operation is an intrinsic that rounds once, to nearest and ties to even. The compiler may
// not contract these, so the results equal those of comm/cpu_int8_codec.cc bit for bit; each step
// there has its counterpart here.
#include "worker/trainer/cuda/int8_kernels.h"

namespace paceline {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;  // Per block, which handles one row.
constexpr int kWarps = kThreads / kWarp;
constexpr int kValues = kInt8KernelRow / kThreads;  // Per thread.
constexpr unsigned kAllLanes = 0xffffffff;
constexpr float kLargest = 127;
// Adding and subtracting this rounds a float below 2^22 to a whole number, halves to even.
constexpr float kRounder = 12582912;  // 1.5 * 2^23.

// The bits of non-negative floats sort like their values, with NaN on top, so a NaN is not lost.
__device__ int MagnitudeBits(float value) { return __float_as_int(value) & 0x7fffffff; }

// Returns the greatest `value` of the block's threads in each thread.
__device__ int BlockMax(int value) {
  __shared__ int of_warp[kWarps];
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, lanes));
  }
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < kWarps; ++warp) value = max(value, of_warp[warp]);
  return value;
}

// x / scale as a whole number.
__device__ float Quantize(float x, float scale) {
  if (scale == 0) return 0;
  // A subnormal scale may be too small because it was rounded itself.
  float q = __fdiv_rn(x, scale);
  q = q > -kLargest ? q : -kLargest;
  q = q < kLargest ? q : kLargest;
  return __fsub_rn(__fadd_rn(q, kRounder), kRounder);
}

__global__ void Encode(const float* __restrict__ value, float* __restrict__ error,
                       int8_t* __restrict__ quantized, float* __restrict__ scales, int64_t count) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kInt8KernelRow + threadIdx.x;
  float x[kValues];
  int largest = 0;
#pragma unroll
  for (int k = 0; k < kValues; ++k) {
    const int64_t i = first + k * kThreads;
    x[k] = i < count ? __fadd_rn(value[i], error[i]) : 0;
    largest = max(largest, MagnitudeBits(x[k]));
  }
  const float scale = __fdiv_rn(__int_as_float(BlockMax(largest)), kLargest);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
#pragma unroll
  for (int k = 0; k < kValues; ++k) {
    const int64_t i = first + k * kThreads;
    if (i >= count) break;
    const float q = Quantize(x[k], scale);
    quantized[i] = static_cast<int8_t>(q);
    error[i] = __fsub_rn(x[k], __fmul_rn(q, scale));
  }
}

__global__ void AddDecoded(const int8_t* __restrict__ quantized, const float* __restrict__ scales,
                           float factor, float* __restrict__ sum, int64_t count) {
  const float scale = scales[blockIdx.x];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kInt8KernelRow + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kValues; ++k) {
    const int64_t i = first + k * kThreads;
    if (i >= count) break;
    const float decoded = __fmul_rn(static_cast<float>(quantized[i]), scale);
    sum[i] = __fadd_rn(sum[i], __fmul_rn(factor, decoded));
  }
}

unsigned Rows(int64_t count) {
  return static_cast<unsigned>((count + kInt8KernelRow - 1) / kInt8KernelRow);
}

}  // namespace

cudaError_t LaunchInt8Encode(const float* value, float* error, int8_t* quantized, float* scales,
                             int64_t count, cudaStream_t stream) {
  Encode<<<Rows(count), kThreads, 0, stream>>>(value, error, quantized, scales, count);
  return cudaGetLastError();
}

cudaError_t LaunchInt8AddDecoded(const int8_t* quantized, const float* scales, float factor,
                                 float* sum, int64_t count, cudaStream_t stream) {
  AddDecoded<<<Rows(count), kThreads, 0, stream>>>(quantized, scales, factor, sum, count);
  return cudaGetLastError();
}

}  // namespace paceline
