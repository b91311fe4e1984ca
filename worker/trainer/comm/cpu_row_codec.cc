#include "worker/trainer/comm/cpu_row_codec.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "worker/trainer/comm/row_check.h"

namespace paceline {
namespace {

// The bits of non-negative floats sort like their values, with NaN on top, so a NaN is not lost.
float LargestMagnitude(const float* x, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, BitsOfFloat(x[i]) & 0x7fffffff);
  return FloatOfBits(largest);
}

// Encodes a row and returns its scale.
template <typename Format>
float EncodeRow(const float* __restrict value, float* __restrict error,
                typename Format::Code* __restrict codes, int64_t count) {
  std::array<float, kRowValues> x;
  for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i)] = value[i] + error[i];
  const float scale = LargestMagnitude(x.data(), count) / Format::kLargest;
  if (scale == 0) {
    std::fill(codes, codes + count, typename Format::Code{0});
    std::copy(x.data(), x.data() + count, error);
    return scale;
  }
  for (int64_t i = 0; i < count; ++i) {
    const float q = NearestInRow<Format>(x[static_cast<size_t>(i)], scale);
    codes[i] = Format::CodeOf(q);
    error[i] = x[static_cast<size_t>(i)] - q * scale;
  }
  return scale;
}

template <typename Format>
void AddDecodedRow(const typename Format::Code* __restrict codes, float scale, float factor,
                   float* __restrict sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float decoded = Format::ValueOf(codes[i]) * scale;
    sum[i] += factor * decoded;
  }
}

void Pack(const int8_t* __restrict codes, uint8_t* __restrict pairs, int64_t count) {
  for (int64_t i = 0; i < count / 2; ++i) pairs[i] = PairOf(codes[2 * i], codes[2 * i + 1]);
  if (count % 2 == 1) pairs[count / 2] = PairOf(codes[count - 1], 0);
}

void Unpack(const uint8_t* __restrict pairs, int8_t* __restrict codes, int64_t count) {
  for (int64_t i = 0; i < count / 2; ++i) {
    codes[2 * i] = LowerOf(pairs[i]);
    codes[2 * i + 1] = UpperOf(pairs[i]);
  }
  if (count % 2 == 1) codes[count - 1] = LowerOf(pairs[count / 2]);
}

// The codes of the row that begins with value `first`.
template <typename Format, typename Byte>
Byte* RowAt(Byte* codes, int64_t first) {
  return codes + first * Format::kValueBits / 8;
}

template <typename Format>
void EncodeRows(const at::Tensor& value, const at::Tensor& error, const RowCodes& codes) {
  using Code = typename Format::Code;
  const auto* const values = value.const_data_ptr<float>();
  auto* const errors = error.mutable_data_ptr<float>();
  auto* const bytes = codes.codes.mutable_data_ptr<uint8_t>();
  auto* const scales = codes.scales.mutable_data_ptr<float>();
  for (int64_t row = 0; row < codes.scales.numel(); ++row) {
    const int64_t first = row * kRowValues;
    const int64_t count = std::min(kRowValues, value.numel() - first);
    uint8_t* const sent = RowAt<Format>(bytes, first);
    if constexpr (kInPairs<Format>) {
      std::array<Code, kRowValues> single;
      scales[row] = EncodeRow<Format>(values + first, errors + first, single.data(), count);
      Pack(single.data(), sent, count);
    } else {
      auto* const single = reinterpret_cast<Code*>(sent);
      scales[row] = EncodeRow<Format>(values + first, errors + first, single, count);
    }
  }
}

template <typename Format>
void AddDecodedRows(const RowCodes& codes, float factor, const at::Tensor& sum) {
  using Code = typename Format::Code;
  const auto* const bytes = codes.codes.const_data_ptr<uint8_t>();
  const auto* const scales = codes.scales.const_data_ptr<float>();
  auto* const sums = sum.mutable_data_ptr<float>();
  for (int64_t row = 0; row < codes.scales.numel(); ++row) {
    const int64_t first = row * kRowValues;
    const int64_t count = std::min(kRowValues, sum.numel() - first);
    const uint8_t* const received = RowAt<Format>(bytes, first);
    if constexpr (kInPairs<Format>) {
      std::array<Code, kRowValues> single;
      Unpack(received, single.data(), count);
      AddDecodedRow<Format>(single.data(), scales[row], factor, sums + first, count);
    } else {
      const auto* const single = reinterpret_cast<const Code*>(received);
      AddDecodedRow<Format>(single, scales[row], factor, sums + first, count);
    }
  }
}

}  // namespace

void CpuRowCodec::Encode(RowFormat format, const at::Tensor& value, at::Tensor error,
                         const RowCodes& codes) {
  CheckRowCodes(c10::kCPU, format, {value, error}, codes);
  switch (format) {
    case RowFormat::kInt4:
      return EncodeRows<Int4Format>(value, error, codes);
    case RowFormat::kInt8:
      return EncodeRows<Int8Format>(value, error, codes);
    case RowFormat::kFp8:
      return EncodeRows<Fp8Format>(value, error, codes);
    case RowFormat::kFp16:
      return EncodeRows<Fp16Format>(value, error, codes);
    case RowFormat::kBf16:
      return EncodeRows<Bf16Format>(value, error, codes);
  }
}

void CpuRowCodec::AddDecoded(RowFormat format, const RowCodes& codes, float factor,
                             at::Tensor sum) {
  CheckRowCodes(c10::kCPU, format, {sum}, codes);
  switch (format) {
    case RowFormat::kInt4:
      return AddDecodedRows<Int4Format>(codes, factor, sum);
    case RowFormat::kInt8:
      return AddDecodedRows<Int8Format>(codes, factor, sum);
    case RowFormat::kFp8:
      return AddDecodedRows<Fp8Format>(codes, factor, sum);
    case RowFormat::kFp16:
      return AddDecodedRows<Fp16Format>(codes, factor, sum);
    case RowFormat::kBf16:
      return AddDecodedRows<Bf16Format>(codes, factor, sum);
  }
}

}  // namespace paceline
