#include "worker/trainer/comm/cpu_int8_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "worker/trainer/comm/int8_check.h"

namespace paceline {
namespace {

constexpr float kLargest = 127;
// Adding and subtracting this rounds a float below 2^22 to a whole number, halves to even.
constexpr float kRounder = 12582912;  // 1.5 * 2^23.

// The bits of non-negative floats sort like their values, with NaN on top, so a NaN is not lost.
float LargestMagnitude(const float* x, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    int32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    largest = std::max(largest, bits & 0x7fffffff);
  }
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof(magnitude));
  return magnitude;
}

// Encodes a row and returns its scale.
float EncodeRow(const float* __restrict value, float* __restrict error,
                int8_t* __restrict quantized, int64_t count) {
  std::array<float, kInt8Row> x;
  for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i)] = value[i] + error[i];
  const float scale = LargestMagnitude(x.data(), count) / kLargest;
  if (scale == 0) {
    std::fill(quantized, quantized + count, int8_t{0});
    std::copy(x.data(), x.data() + count, error);
    return scale;
  }
  for (int64_t i = 0; i < count; ++i) {
    // A subnormal scale may be too small because it was rounded itself.
    float q = x[static_cast<size_t>(i)] / scale;
    q = q > -kLargest ? q : -kLargest;
    q = q < kLargest ? q : kLargest;
    q = (q + kRounder) - kRounder;
    quantized[i] = static_cast<int8_t>(static_cast<int32_t>(q));
    error[i] = x[static_cast<size_t>(i)] - q * scale;
  }
  return scale;
}

}  // namespace

void CpuInt8Codec::Encode(const at::Tensor& value, at::Tensor error, at::Tensor quantized,
                          at::Tensor scales) {
  CheckInt8Codes(c10::kCPU, {value, error}, quantized, scales);
  const auto* const values = value.const_data_ptr<float>();
  auto* const errors = error.mutable_data_ptr<float>();
  auto* const bytes = quantized.mutable_data_ptr<int8_t>();
  auto* const factors = scales.mutable_data_ptr<float>();
  for (int64_t row = 0; row < scales.numel(); ++row) {
    const int64_t first = row * kInt8Row;
    const int64_t count = std::min(kInt8Row, value.numel() - first);
    factors[row] = EncodeRow(values + first, errors + first, bytes + first, count);
  }
}

void CpuInt8Codec::AddDecoded(const at::Tensor& quantized, const at::Tensor& scales, float factor,
                              at::Tensor sum) {
  CheckInt8Codes(c10::kCPU, {sum}, quantized, scales);
  const auto* const bytes = quantized.const_data_ptr<int8_t>();
  const auto* const factors = scales.const_data_ptr<float>();
  auto* const sums = sum.mutable_data_ptr<float>();
  for (int64_t row = 0; row < scales.numel(); ++row) {
    const int64_t first = row * kInt8Row;
    const int64_t end = std::min(first + kInt8Row, sum.numel());
    const float scale = factors[row];
    for (int64_t i = first; i < end; ++i) {
      const float decoded = static_cast<float>(bytes[i]) * scale;
      sums[i] += factor * decoded;
    }
  }
}

}  // namespace paceline
