// Number formats in which a row of values travels, one scale per row: the arithmetic that the
// codecs of all devices share. Without torch, whose headers nvcc cannot read.
//
// A row is 512 consecutive values x. With s = max|x| / kLargest, a value is sent as the number q of
// the format nearest to x / s, ties to even, and understood as q * s. A row of zeros has s = 0 and
// q = 0. For finite x the rounding error is, but for the rounding of floats, at most
//
//   int4   s / 2
//   int8   s / 2
//   fp8    |x| / 16, or s / 2^10 if that is more    (E4M3: 3 bits of mantissa)
//   bf16   |x| / 256
//   fp16   |x| / 2048, or s / 2^25 if that is more
//
// Codes travel one after the other. Two of int4 share a byte, the earlier one in its lower half;
// behind an odd number of values the upper half is zero. A row begins at a byte in any format.
//
// Each function rounds once per operation, to nearest and ties to even, so all devices give the
// same bits if the compiler contracts no product with a sum.
#ifndef WORKER_TRAINER_COMM_ROW_FORMATS_H_
#define WORKER_TRAINER_COMM_ROW_FORMATS_H_

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PACELINE_HOST_DEVICE __host__ __device__
#else
#define PACELINE_HOST_DEVICE
#endif

namespace paceline {

inline constexpr int64_t kRowValues = 512;

enum class RowFormat { kInt4, kInt8, kFp8, kFp16, kBf16 };

PACELINE_HOST_DEVICE inline int32_t BitsOfFloat(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_int(value);
#else
  int32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

PACELINE_HOST_DEVICE inline float FloatOfBits(int32_t bits) {
#ifdef __CUDA_ARCH__
  return __int_as_float(bits);
#else
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

// In the formats below: Round(q) is the format's number nearest to q, for |q| <= kLargest. CodeOf
// writes such a number, and ValueOf reads it. A code takes kValueBits bits of a message.

// Whole numbers of so many bits, as many below zero as above.
template <int kBits>
struct WholeNumbers {
  using Code = int8_t;
  static constexpr int kValueBits = kBits;
  static constexpr float kLargest = (1 << (kBits - 1)) - 1;

  PACELINE_HOST_DEVICE static float Round(float q) {
    constexpr float kRounder = 12582912;  // 1.5 * 2^23; rounds a float below 2^22.
    return (q + kRounder) - kRounder;
  }
  PACELINE_HOST_DEVICE static Code CodeOf(float q) {
    return static_cast<Code>(static_cast<int32_t>(q));
  }
  PACELINE_HOST_DEVICE static float ValueOf(Code code) { return static_cast<float>(code); }
};

using Int4Format = WholeNumbers<4>;
using Int8Format = WholeNumbers<8>;

// A sign, an exponent with this bias, and so many bits of mantissa, as in IEEE 754.
template <typename CodeType, int kMantissaBits, int kBias>
struct SmallFloat {
  using Code = CodeType;
  static constexpr int kValueBits = 8 * static_cast<int>(sizeof(Code));
  static constexpr int kDropped = 23 - kMantissaBits;  // Bits of a float's mantissa.
  static constexpr int kSignShift = kValueBits - 1;
  static constexpr int32_t kBiasBits = (127 - kBias) << 23;
  static constexpr int32_t kLeastNormal = kBiasBits + (1 << 23);  // Bits of a float.
  // Whether numbers below the least normal one are normal floats.
  static constexpr bool kBelowIsNormal = kBias < 127;
  // A float whose unit in the last place is the format's least number, 2^(1 - bias - mantissa).
  static constexpr int32_t kUnits = (151 - kBias - kMantissaBits) << 23;

  PACELINE_HOST_DEVICE static float Round(float q) {
    int32_t power = BitsOfFloat(q) & 0x7f800000;  // At or below |q|.
    if (power < kLeastNormal) power = kLeastNormal;
    // 1.5 * 2^23 of the format's units at that power.
    const float rounder = FloatOfBits((power + (kDropped << 23)) | 0x400000);
    return (q + rounder) - rounder;
  }

  PACELINE_HOST_DEVICE static Code CodeOf(float q) {
    const int32_t bits = BitsOfFloat(q);
    const int32_t magnitude = bits & 0x7fffffff;
    int32_t code = (magnitude - kBiasBits) >> kDropped;
    if constexpr (kBelowIsNormal) {
      const int32_t below = BitsOfFloat(FloatOfBits(magnitude) + FloatOfBits(kUnits)) - kUnits;
      code = magnitude < kLeastNormal ? below : code;
    }
    return static_cast<Code>(code | (bits < 0 ? 1 << kSignShift : 0));
  }

  PACELINE_HOST_DEVICE static float ValueOf(Code code) {
    const int32_t magnitude = code & ((1 << kSignShift) - 1);
    float value = FloatOfBits((magnitude << kDropped) + kBiasBits);
    if constexpr (kBelowIsNormal) {
      const float below = FloatOfBits(kUnits + magnitude) - FloatOfBits(kUnits);
      value = magnitude < (1 << kMantissaBits) ? below : value;
    }
    return (code >> kSignShift) != 0 ? -value : value;
  }
};

// E4M3 as in torch.float8_e4m3fn.
struct Fp8Format : SmallFloat<uint8_t, 3, 7> {
  static constexpr float kLargest = 448;
};

struct Fp16Format : SmallFloat<uint16_t, 10, 15> {
  static constexpr float kLargest = 65504;
};

// It has the exponents of floats, so its scale only keeps what is not finite.
struct Bf16Format : SmallFloat<uint16_t, 7, 127> {
  static constexpr float kLargest = 1;
};

// The number of `Format` nearest to x / scale. A scale that was rounded itself may be too small. A
// scale that is not finite gives numbers that are not finite when they are read.
template <typename Format>
PACELINE_HOST_DEVICE inline float NearestInRow(float x, float scale) {
  constexpr float kLargest = Format::kLargest;
  float q = x / scale;
  q = q > -kLargest ? q : -kLargest;  // NaN too.
  q = q < kLargest ? q : kLargest;
  return Format::Round(q);
}

// Whether two codes share a byte.
template <typename Format>
inline constexpr bool kInPairs = Format::kValueBits == 4;

PACELINE_HOST_DEVICE inline uint8_t PairOf(int8_t lower, int8_t upper) {
  return static_cast<uint8_t>((lower & 0xf) | ((upper & 0xf) << 4));
}

PACELINE_HOST_DEVICE inline int8_t LowerOf(uint8_t pair) {
  return static_cast<int8_t>(((pair & 0xf) ^ 8) - 8);  // With its sign.
}

PACELINE_HOST_DEVICE inline int8_t UpperOf(uint8_t pair) {
  return static_cast<int8_t>(((pair >> 4) ^ 8) - 8);
}

// Bits of a value, without its part of the row's scale.
inline int RowValueBits(RowFormat format) {
  switch (format) {
    case RowFormat::kInt4:
      return Int4Format::kValueBits;
    case RowFormat::kInt8:
      return Int8Format::kValueBits;
    case RowFormat::kFp8:
      return Fp8Format::kValueBits;
    case RowFormat::kFp16:
      return Fp16Format::kValueBits;
    case RowFormat::kBf16:
      return Bf16Format::kValueBits;
  }
  return 0;
}

// Bytes of the codes of so many values, the first of which begins a row.
inline int64_t CodeBytes(RowFormat format, int64_t values) {
  return (values * RowValueBits(format) + 7) / 8;
}

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_ROW_FORMATS_H_
