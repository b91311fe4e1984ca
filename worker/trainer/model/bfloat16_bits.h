// Conversion between float and bfloat16, given by its bits, for loops that the compiler turns into
// vector instructions, and for kernels. Without torch, whose headers nvcc cannot read.
//
// Integer arithmetic decides, so NaN is treated right where the compiler assumes that there is
// none. All devices give the same bits.
#ifndef WORKER_TRAINER_MODEL_BFLOAT16_BITS_H_
#define WORKER_TRAINER_MODEL_BFLOAT16_BITS_H_

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PACELINE_IN_LOOPS __host__ __device__ inline
#else
#define PACELINE_IN_LOOPS inline __attribute__((always_inline))
#endif

namespace paceline {

PACELINE_IN_LOOPS float FloatOfBfloat16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

// To nearest, ties to even; NaN stays one. Branch-free.
PACELINE_IN_LOOPS uint16_t Bfloat16OfFloat(float value) {
  constexpr uint32_t kNan = 0x7fc0;
#ifdef __CUDA_ARCH__
  const uint32_t bits = __float_as_uint(value);
#else
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
#endif
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<uint16_t>(is_nan ? kNan : rounded);
}

// An element of an array of floats or of bfloat16.
PACELINE_IN_LOOPS float LoadFloat(float element) { return element; }
PACELINE_IN_LOOPS float LoadFloat(uint16_t element) { return FloatOfBfloat16(element); }
PACELINE_IN_LOOPS void StoreFloat(float value, float* element) { *element = value; }
PACELINE_IN_LOOPS void StoreFloat(float value, uint16_t* element) {
  *element = Bfloat16OfFloat(value);
}

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_BFLOAT16_BITS_H_
