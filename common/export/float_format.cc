#include "common/export/float_format.h"

#include <cstddef>
#include <cstring>

namespace paceline {
namespace {

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7F800000;

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Rounds off the `dropped` lowest bits; a carry continues into the exponent.
uint32_t Rounded(uint32_t bits, int dropped) {
  const uint32_t half = uint32_t{1} << (dropped - 1);
  const uint32_t odd = (bits >> dropped) & 1;
  return (bits + half - 1 + odd) >> dropped;
}

}  // namespace

const char* DtypeOf(FloatFormat format) {
  switch (format) {
    case FloatFormat::kBf16:
      return "BF16";
    case FloatFormat::kFp16:
      return "F16";
    case FloatFormat::kFp32:
      break;
  }
  return "F32";
}

const char* TorchNameOf(FloatFormat format) {
  switch (format) {
    case FloatFormat::kBf16:
      return "bfloat16";
    case FloatFormat::kFp16:
      return "float16";
    case FloatFormat::kFp32:
      break;
  }
  return "float32";
}

uint16_t ToBf16(float value) {
  const uint32_t bits = BitsOf(value);
  // Sets the bit for a quiet NaN, or dropping the other bits could make it infinite.
  if ((bits & ~kSign) > kInfinity) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>(Rounded(bits, 16));
}

uint16_t ToFp16(float value) {
  // fp32 has bias 127 and 23 mantissa bits, fp16 has bias 15 and 10 mantissa bits.
  constexpr uint32_t kSmallestNormal = uint32_t{127 - 14} << 23;
  constexpr uint32_t kTooLarge = uint32_t{127 + 16} << 23;
  const uint32_t bits = BitsOf(value);
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t sign = (bits & kSign) >> 16;
  if (magnitude > kInfinity) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= kTooLarge) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude >= kSmallestNormal) {
    const uint32_t rebiased = magnitude - (uint32_t{127 - 15} << 23);
    return static_cast<uint16_t>(sign | Rounded(rebiased, 13));
  }
  // A subnormal is a multiple of 2^-24. Below half of the smallest one, the result is zero.
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent < 127 - 25) return static_cast<uint16_t>(sign);
  const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  return static_cast<uint16_t>(sign | Rounded(mantissa, 127 - 1 - exponent));
}

void AppendConverted(absl::string_view bytes, FloatFormat format, std::string* out) {
  if (format == FloatFormat::kFp32) {
    out->append(bytes.data(), bytes.size());
    return;
  }
  const size_t count = bytes.size() / sizeof(float);
  const size_t begin = out->size();
  out->resize(begin + count * sizeof(uint16_t));
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(value));
    const uint16_t half = format == FloatFormat::kBf16 ? ToBf16(value) : ToFp16(value);
    std::memcpy(&(*out)[begin + i * sizeof(half)], &half, sizeof(half));
  }
}

}  // namespace paceline
