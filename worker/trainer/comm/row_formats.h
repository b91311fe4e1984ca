// Number formats in which a row of values travels, one scale per row: the arithmetic that the
// codecs of all devices share. Without torch, whose headers nvcc cannot read.
//
// A row is 512 consecutive values x. With s = max|x| / kLargest, a value is sent as the number q of
// the format nearest to x / s, ties to even, and understood as q * s. A row of zeros has s = 0 and
// q = 0. For finite x the rounding error is, but for the rounding of floats, at most
//
//   int8   s / 2
//   fp8    |x| / 16, or s / 2^10 if that is more    (E4M3: 3 bits of mantissa)
//   bf16   |x| / 256
//   fp16   |x| / 2048, or s / 2^25 if that is more
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

enum class RowFormat { kInt8, kFp8, kFp16, kBf16 };

// Bytes of a value, without its part of the row's scale.
inline int RowValueBytes(RowFormat format) {
  return format == RowFormat::kInt8 || format == RowFormat::kFp8 ? 1 : 2;
}

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
// writes such a number, and ValueOf reads it.
struct Int8Format {
  using Code = int8_t;
  static constexpr float kLargest = 127;

  PACELINE_HOST_DEVICE static float Round(float q) {
    constexpr float kRounder = 12582912;  // 1.5 * 2^23; rounds a float below 2^22.
    return (q + kRounder) - kRounder;
  }
  PACELINE_HOST_DEVICE static Code CodeOf(float q) {
    return static_cast<Code>(static_cast<int32_t>(q));
  }
  PACELINE_HOST_DEVICE static float ValueOf(Code code) { return static_cast<float>(code); }
};

// A sign, an exponent with this bias, and so many bits of mantissa, as in IEEE 754.
template <typename CodeType, int kMantissaBits, int kBias>
struct SmallFloat {
  using Code = CodeType;
  static constexpr int kDropped = 23 - kMantissaBits;  // Bits of a float's mantissa.
  static constexpr int kSignShift = 8 * static_cast<int>(sizeof(Code)) - 1;
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

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_ROW_FORMATS_H_
