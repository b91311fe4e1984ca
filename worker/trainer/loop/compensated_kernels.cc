#include "worker/trainer/loop/compensated_kernels.h"

#include <cmath>
#include <cstring>

#include "worker/trainer/model/cpu_versions.h"

namespace paceline {
namespace {

inline __attribute__((always_inline)) float Widened(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// To nearest, ties to even; NaN stays one. Branch-free, so that the compiler can vectorise it.
inline __attribute__((always_inline)) uint16_t Rounded(float value) {
  constexpr uint32_t kNan = 0x7fc0;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<uint16_t>(is_nan ? kNan : rounded);
}

// Adds `change` to a weight, of which it contains the compensation.
inline __attribute__((always_inline)) void Store(float p, float change, uint16_t* parameter,
                                                 uint16_t* compensation) {
  *parameter = Rounded(p + change);
  *compensation = Rounded(change - (Widened(*parameter) - p));
}

}  // namespace

PACELINE_CPU_VERSIONS
void AdamWElements(const AdamWScalars& by, uint16_t* __restrict parameter,
                   uint16_t* __restrict compensation, uint16_t* __restrict mean,
                   uint16_t* __restrict square, const uint16_t* __restrict gradient, int64_t size) {
  const AdamWScalars s = by;
  for (int64_t i = 0; i < size; ++i) {
    const float g = Widened(gradient[i]);
    const float p = Widened(parameter[i]);
    const float c = Widened(compensation[i]);
    const float m = s.beta1 * Widened(mean[i]) + s.mean_share * g;
    const float v = s.beta2 * Widened(square[i]) + s.square_share * g * g;
    const float denominator = std::sqrt(v) * s.inverse_root + s.epsilon;
    const float change = (c - s.decay * (p + c)) - s.step_size * (m / denominator);
    mean[i] = Rounded(m);
    square[i] = Rounded(v);
    Store(p, change, parameter + i, compensation + i);
  }
}

PACELINE_CPU_VERSIONS
void SgdElements(const SgdScalars& by, uint16_t* __restrict parameter,
                 uint16_t* __restrict compensation, const uint16_t* __restrict gradient,
                 int64_t size) {
  const SgdScalars s = by;
  for (int64_t i = 0; i < size; ++i) {
    const float p = Widened(parameter[i]);
    const float c = Widened(compensation[i]);
    const float g = Widened(gradient[i]) + s.weight_decay * (p + c);
    Store(p, c - s.learning_rate * g, parameter + i, compensation + i);
  }
}

PACELINE_CPU_VERSIONS
void MomentumElements(const SgdScalars& by, uint16_t* __restrict parameter,
                      uint16_t* __restrict compensation, uint16_t* __restrict velocity,
                      const uint16_t* __restrict gradient, int64_t size) {
  const SgdScalars s = by;
  for (int64_t i = 0; i < size; ++i) {
    const float p = Widened(parameter[i]);
    const float c = Widened(compensation[i]);
    const float g = Widened(gradient[i]) + s.weight_decay * (p + c);
    const float b = s.momentum * Widened(velocity[i]) + g;
    const float direction = s.nesterov ? g + s.momentum * b : b;
    velocity[i] = Rounded(b);
    Store(p, c - s.learning_rate * direction, parameter + i, compensation + i);
  }
}

}  // namespace paceline
