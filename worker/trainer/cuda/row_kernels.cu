// Each operation rounds once, to nearest and ties to even, and nvcc contracts none (-fmad=false,
// bazel/cuda.bzl), so the results equal those of comm/cpu_row_codec.cc bit for bit; each step there
// has its counterpart here.
#include "worker/trainer/cuda/row_kernels.h"

namespace paceline {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;  // Per block, which handles one row.
constexpr int kWarps = kThreads / kWarp;
constexpr int kValues = static_cast<int>(kRowValues) / kThreads;  // Per thread.
constexpr unsigned kAllLanes = 0xffffffff;
static_assert(kValues % 2 == 0, "a thread has whole pairs");

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

// The place in the row of a thread's k-th value. Two codes that share a byte are of one thread: no
// two threads write the same byte.
template <typename Format>
__device__ int PlaceOf(int k) {
  const int thread = static_cast<int>(threadIdx.x);
  return kInPairs<Format> ? 2 * (k / 2 * kThreads + thread) + k % 2 : k * kThreads + thread;
}

// Writes a thread's codes of the row that begins with value `first`. Where no value is, from
// `count` on, `code` is zero.
template <typename Format>
__device__ void Write(const typename Format::Code (&code)[kValues], int64_t first, int64_t count,
                      void* __restrict__ codes) {
#pragma unroll
  for (int k = 0; k < kValues; k += kInPairs<Format> ? 2 : 1) {
    const int64_t i = first + PlaceOf<Format>(k);
    if (i >= count) break;
    if constexpr (kInPairs<Format>) {
      static_cast<uint8_t*>(codes)[i / 2] = PairOf(code[k], code[k + 1]);
    } else {
      static_cast<typename Format::Code*>(codes)[i] = code[k];
    }
  }
}

template <typename Format>
__device__ typename Format::Code CodeAt(const void* __restrict__ codes, int64_t i) {
  if constexpr (kInPairs<Format>) {
    const uint8_t pair = static_cast<const uint8_t*>(codes)[i / 2];
    return i % 2 == 0 ? LowerOf(pair) : UpperOf(pair);
  } else {
    return static_cast<const typename Format::Code*>(codes)[i];
  }
}

template <typename Format>
__global__ void Encode(const float* __restrict__ value, float* __restrict__ error,
                       void* __restrict__ codes, float* __restrict__ scales, int64_t count) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowValues;
  float x[kValues];
  int largest = 0;
#pragma unroll
  for (int k = 0; k < kValues; ++k) {
    const int64_t i = first + PlaceOf<Format>(k);
    x[k] = i < count ? __fadd_rn(value[i], error[i]) : 0;
    // The bits of non-negative floats sort like their values, with NaN on top.
    largest = max(largest, BitsOfFloat(x[k]) & 0x7fffffff);
  }
  constexpr float kLargest = Format::kLargest;
  const float scale = __fdiv_rn(FloatOfBits(BlockMax(largest)), kLargest);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  typename Format::Code code[kValues] = {};
#pragma unroll
  for (int k = 0; k < kValues; ++k) {
    const int64_t i = first + PlaceOf<Format>(k);
    if (i >= count) break;
    const float q = scale == 0 ? 0 : NearestInRow<Format>(x[k], scale);
    code[k] = Format::CodeOf(q);
    error[i] = __fsub_rn(x[k], __fmul_rn(q, scale));
  }
  Write<Format>(code, first, count, codes);
}

template <typename Format>
__global__ void AddDecoded(const void* __restrict__ codes, const float* __restrict__ scales,
                           float factor, float* __restrict__ sum, int64_t count) {
  const float scale = scales[blockIdx.x];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowValues + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kValues; ++k) {
    const int64_t i = first + k * kThreads;
    if (i >= count) break;
    const float decoded = __fmul_rn(Format::ValueOf(CodeAt<Format>(codes, i)), scale);
    sum[i] = __fadd_rn(sum[i], __fmul_rn(factor, decoded));
  }
}

unsigned Rows(int64_t count) {
  return static_cast<unsigned>((count + kRowValues - 1) / kRowValues);
}

template <typename Format>
cudaError_t LaunchEncode(const float* value, float* error, void* codes, float* scales,
                         int64_t count, cudaStream_t stream) {
  Encode<Format><<<Rows(count), kThreads, 0, stream>>>(value, error, codes, scales, count);
  return cudaGetLastError();
}

template <typename Format>
cudaError_t LaunchAddDecoded(const void* codes, const float* scales, float factor, float* sum,
                             int64_t count, cudaStream_t stream) {
  AddDecoded<Format><<<Rows(count), kThreads, 0, stream>>>(codes, scales, factor, sum, count);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchRowEncode(RowFormat format, const float* value, float* error, void* codes,
                            float* scales, int64_t count, cudaStream_t stream) {
  switch (format) {
    case RowFormat::kInt4:
      return LaunchEncode<Int4Format>(value, error, codes, scales, count, stream);
    case RowFormat::kInt8:
      return LaunchEncode<Int8Format>(value, error, codes, scales, count, stream);
    case RowFormat::kFp8:
      return LaunchEncode<Fp8Format>(value, error, codes, scales, count, stream);
    case RowFormat::kFp16:
      return LaunchEncode<Fp16Format>(value, error, codes, scales, count, stream);
    case RowFormat::kBf16:
      return LaunchEncode<Bf16Format>(value, error, codes, scales, count, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchRowAddDecoded(RowFormat format, const void* codes, const float* scales,
                                float factor, float* sum, int64_t count, cudaStream_t stream) {
  switch (format) {
    case RowFormat::kInt4:
      return LaunchAddDecoded<Int4Format>(codes, scales, factor, sum, count, stream);
    case RowFormat::kInt8:
      return LaunchAddDecoded<Int8Format>(codes, scales, factor, sum, count, stream);
    case RowFormat::kFp8:
      return LaunchAddDecoded<Fp8Format>(codes, scales, factor, sum, count, stream);
    case RowFormat::kFp16:
      return LaunchAddDecoded<Fp16Format>(codes, scales, factor, sum, count, stream);
    case RowFormat::kBf16:
      return LaunchAddDecoded<Bf16Format>(codes, scales, factor, sum, count, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace paceline
