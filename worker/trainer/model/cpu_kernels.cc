#include "worker/trainer/model/cpu_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "worker/trainer/model/cpu_versions.h"

namespace paceline {
namespace {

// Number of partial sums, so that a row's additions can run in parallel.
constexpr int64_t kLanes = 32;

struct Lanes {
  float sum[kLanes] = {};

  float Total() const {
    float total = 0;
    for (const float one : sum) total += one;
    return total;
  }
};

// Computes exp(x) from the power of two nearest to x / ln 2 and a polynomial for the rest; tends to
// 0 at -87 and to infinity at 88. Branch-free, so that the compiler can vectorise it.
inline __attribute__((always_inline)) float Exp(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // Has few bits, so that its multiples are exact.
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.F;  // 1.5 * 2^23: adding it removes the fraction.
  x = std::fmin(std::fmax(x, -87.F), 88.F);
  const float n = x * kLog2E + kRound - kRound;
  const float r = x - n * kLn2High - n * kLn2Low;  // |r| <= ln 2 / 2.
  float p = 1.F / 720;
  p = p * r + 1.F / 120;
  p = p * r + 1.F / 24;
  p = p * r + 1.F / 6;
  p = p * r + 0.5F;
  p = p * r + 1;
  p = p * r + 1;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float power = 0;
  std::memcpy(&power, &bits, sizeof(power));
  return p * power;
}

}  // namespace

PACELINE_CPU_VERSIONS
void RmsNormRows(const float* x, const float* weight, int64_t rows, int64_t dim, float epsilon,
                 float* y, float* scale) {
  const int64_t whole = dim - dim % kLanes;
  for (int64_t row = 0; row < rows; ++row, x += dim, y += dim) {
    Lanes squares;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) squares.sum[k] += x[i + k] * x[i + k];
    }
    for (int64_t i = whole; i < dim; ++i) squares.sum[0] += x[i] * x[i];
    const float s = 1 / std::sqrt(squares.Total() / static_cast<float>(dim) + epsilon);
    scale[row] = s;
    for (int64_t i = 0; i < dim; ++i) y[i] = x[i] * s * weight[i];
  }
}

PACELINE_CPU_VERSIONS
void RmsNormRowsBackward(const float* grad_y, const float* x, const float* weight,
                         const float* scale, int64_t rows, int64_t dim, float* grad_x,
                         float* grad_weight) {
  std::fill(grad_weight, grad_weight + dim, 0.F);
  const int64_t whole = dim - dim % kLanes;
  for (int64_t row = 0; row < rows; ++row, x += dim, grad_y += dim, grad_x += dim) {
    Lanes products;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) {
        products.sum[k] += grad_y[i + k] * weight[i + k] * x[i + k];
      }
    }
    for (int64_t i = whole; i < dim; ++i) products.sum[0] += grad_y[i] * weight[i] * x[i];
    const float s = scale[row];
    const float c = products.Total() * s * s * s / static_cast<float>(dim);
    for (int64_t i = 0; i < dim; ++i) {
      grad_x[i] = s * grad_y[i] * weight[i] - c * x[i];
      grad_weight[i] += grad_y[i] * x[i] * s;
    }
  }
}

PACELINE_CPU_VERSIONS
void RotateRows(const float* x, const float* cos, const float* sin, int64_t first_row, int64_t rows,
                int64_t positions, int64_t heads, int64_t dim, float direction, float* y) {
  const int64_t half = dim / 2;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position = (first_row + row) % positions;
    const float* c = cos + position * half;
    const float* s = sin + position * half;
    for (int64_t head = 0; head < heads; ++head, x += dim, y += dim) {
      for (int64_t i = 0; i < half; ++i) {
        const float turn = direction * s[i];
        y[i] = x[i] * c[i] - x[i + half] * turn;
        y[i + half] = x[i + half] * c[i] + x[i] * turn;
      }
    }
  }
}

PACELINE_CPU_VERSIONS
void SwiGluElements(const float* gate, const float* up, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = gate[i] / (1 + Exp(-gate[i])) * up[i];
}

PACELINE_CPU_VERSIONS
void SwiGluElementsBackward(const float* grad_y, const float* gate, const float* up, int64_t size,
                            float* grad_gate, float* grad_up) {
  for (int64_t i = 0; i < size; ++i) {
    const float sigmoid = 1 / (1 + Exp(-gate[i]));
    grad_up[i] = grad_y[i] * gate[i] * sigmoid;
    grad_gate[i] = grad_y[i] * up[i] * sigmoid * (1 + gate[i] * (1 - sigmoid));
  }
}

}  // namespace paceline
