// Conversion between float and bfloat16, given by its bits, for loops that the compiler turns into
// vector instructions.
//
// Integer arithmetic decides, so NaN is treated right where the compiler assumes that there is
// none.
#ifndef WORKER_TRAINER_MODEL_BFLOAT16_BITS_H_
#define WORKER_TRAINER_MODEL_BFLOAT16_BITS_H_

#include <cstdint>
#include <cstring>

namespace paceline {

inline __attribute__((always_inline)) float FloatOfBfloat16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// To nearest, ties to even; NaN stays one. Branch-free.
inline __attribute__((always_inline)) uint16_t Bfloat16OfFloat(float value) {
  constexpr uint32_t kNan = 0x7fc0;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<uint16_t>(is_nan ? kNan : rounded);
}

// An element of an array of floats or of bfloat16.
inline __attribute__((always_inline)) float LoadFloat(float element) { return element; }
inline __attribute__((always_inline)) float LoadFloat(uint16_t element) {
  return FloatOfBfloat16(element);
}
inline __attribute__((always_inline)) void StoreFloat(float value, float* element) {
  *element = value;
}
inline __attribute__((always_inline)) void StoreFloat(float value, uint16_t* element) {
  *element = Bfloat16OfFloat(value);
}

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_BFLOAT16_BITS_H_
