// exp(x) for loops that the compiler turns into vector instructions.
#ifndef WORKER_TRAINER_MODEL_CPU_EXP_H_
#define WORKER_TRAINER_MODEL_CPU_EXP_H_

#include <cstdint>
#include <cstring>

namespace paceline {

// Computes exp(x) from the power of two nearest to x / ln 2 and a polynomial for the rest; below
// -87 the result is that of -87, above 88.4 infinity, as which the exponent of all ones is read.
// Branch-free. NaN stays NaN, unless the compiler was told that there is none.
inline __attribute__((always_inline)) float Exp(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // Has few bits, so that its multiples are exact.
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.F;  // 1.5 * 2^23: adding it removes the fraction.
  x = x < -87.F ? -87.F : x;
  x = x > 89.F ? 89.F : x;
  const float n = x * kLog2E + kRound - kRound;
  const float r = x - n * kLn2High - n * kLn2Low;  // |r| <= ln 2 / 2.
  float p = 1.F / 720;
  p = p * r + 1.F / 120;
  p = p * r + 1.F / 24;
  p = p * r + 1.F / 6;
  p = p * r + 0.5F;
  p = p * r + 1;
  p = p * r + 1;
  const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  float power = 0;
  std::memcpy(&power, &bits, sizeof(power));
  return p * power;
}

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CPU_EXP_H_
