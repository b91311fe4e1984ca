#include "worker/trainer/loop/compensated_kernels.h"

#include <cmath>

#include "worker/trainer/model/bfloat16_bits.h"
#include "worker/trainer/model/cpu_versions.h"

namespace paceline {
namespace {

// Adds `change` to a weight, of which it contains the compensation.
inline __attribute__((always_inline)) void Store(float p, float change, uint16_t* parameter,
                                                 uint16_t* compensation) {
  *parameter = Bfloat16OfFloat(p + change);
  *compensation = Bfloat16OfFloat(change - (FloatOfBfloat16(*parameter) - p));
}

}  // namespace

PACELINE_CPU_VERSIONS
void AdamWElements(const AdamWScalars& by, uint16_t* __restrict parameter,
                   uint16_t* __restrict compensation, uint16_t* __restrict mean,
                   uint16_t* __restrict square, const uint16_t* __restrict gradient, int64_t size) {
  const AdamWScalars s = by;
  for (int64_t i = 0; i < size; ++i) {
    const float g = FloatOfBfloat16(gradient[i]);
    const float p = FloatOfBfloat16(parameter[i]);
    const float c = FloatOfBfloat16(compensation[i]);
    const float m = s.beta1 * FloatOfBfloat16(mean[i]) + s.mean_share * g;
    const float v = s.beta2 * FloatOfBfloat16(square[i]) + s.square_share * g * g;
    const float denominator = std::sqrt(v) * s.inverse_root + s.epsilon;
    const float change = (c - s.decay * (p + c)) - s.step_size * (m / denominator);
    mean[i] = Bfloat16OfFloat(m);
    square[i] = Bfloat16OfFloat(v);
    Store(p, change, parameter + i, compensation + i);
  }
}

PACELINE_CPU_VERSIONS
void SgdElements(const SgdScalars& by, uint16_t* __restrict parameter,
                 uint16_t* __restrict compensation, const uint16_t* __restrict gradient,
                 int64_t size) {
  const SgdScalars s = by;
  for (int64_t i = 0; i < size; ++i) {
    const float p = FloatOfBfloat16(parameter[i]);
    const float c = FloatOfBfloat16(compensation[i]);
    const float g = FloatOfBfloat16(gradient[i]) + s.weight_decay * (p + c);
    Store(p, c - s.learning_rate * g, parameter + i, compensation + i);
  }
}

PACELINE_CPU_VERSIONS
void MomentumElements(const SgdScalars& by, uint16_t* __restrict parameter,
                      uint16_t* __restrict compensation, uint16_t* __restrict velocity,
                      const uint16_t* __restrict gradient, int64_t size) {
  const SgdScalars s = by;
  for (int64_t i = 0; i < size; ++i) {
    const float p = FloatOfBfloat16(parameter[i]);
    const float c = FloatOfBfloat16(compensation[i]);
    const float g = FloatOfBfloat16(gradient[i]) + s.weight_decay * (p + c);
    const float b = s.momentum * FloatOfBfloat16(velocity[i]) + g;
    const float direction = s.nesterov ? g + s.momentum * b : b;
    velocity[i] = Bfloat16OfFloat(b);
    Store(p, c - s.learning_rate * direction, parameter + i, compensation + i);
  }
}

}  // namespace paceline
