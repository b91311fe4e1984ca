#include "worker/trainer/model/cpu_kernels.h"

#include <algorithm>
#include <cmath>

#include "worker/trainer/model/bfloat16_bits.h"
#include "worker/trainer/model/cpu_exp.h"
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

// The loops below, inlined into the functions for each type, which have a version for each
// instruction set. `Y` and `T` are float or uint16_t, the bits of bfloat16.

template <typename Y>
inline __attribute__((always_inline)) void NormalizeRows(const float* x, const float* weight,
                                                         int64_t rows, int64_t dim, float epsilon,
                                                         Y* y, float* scale) {
  const int64_t whole = dim - dim % kLanes;
  for (int64_t row = 0; row < rows; ++row, x += dim, y += dim) {
    Lanes squares;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) squares.sum[k] += x[i + k] * x[i + k];
    }
    for (int64_t i = whole; i < dim; ++i) squares.sum[0] += x[i] * x[i];
    const float s = 1 / std::sqrt(squares.Total() / static_cast<float>(dim) + epsilon);
    scale[row] = s;
    for (int64_t i = 0; i < dim; ++i) StoreFloat(x[i] * s * weight[i], y + i);
  }
}

template <typename Y>
inline __attribute__((always_inline)) void NormalizeRowsBackward(const Y* grad_y, const float* x,
                                                                 const float* weight,
                                                                 const float* scale, int64_t rows,
                                                                 int64_t dim, float* grad_x,
                                                                 float* grad_weight) {
  std::fill(grad_weight, grad_weight + dim, 0.F);
  const int64_t whole = dim - dim % kLanes;
  for (int64_t row = 0; row < rows; ++row, x += dim, grad_y += dim, grad_x += dim) {
    Lanes products;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) {
        products.sum[k] += LoadFloat(grad_y[i + k]) * weight[i + k] * x[i + k];
      }
    }
    for (int64_t i = whole; i < dim; ++i) {
      products.sum[0] += LoadFloat(grad_y[i]) * weight[i] * x[i];
    }
    const float s = scale[row];
    const float c = products.Total() * s * s * s / static_cast<float>(dim);
    for (int64_t i = 0; i < dim; ++i) {
      const float g = LoadFloat(grad_y[i]);
      grad_x[i] = s * g * weight[i] - c * x[i];
      grad_weight[i] += g * x[i] * s;
    }
  }
}

template <typename T>
inline __attribute__((always_inline)) void RotateHeads(const T* x, const float* cos,
                                                       const float* sin, int64_t first_row,
                                                       int64_t rows, int64_t positions,
                                                       int64_t heads, int64_t dim, float direction,
                                                       T* y) {
  const int64_t half = dim / 2;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position = (first_row + row) % positions;
    const float* c = cos + position * half;
    const float* s = sin + position * half;
    for (int64_t head = 0; head < heads; ++head, x += dim, y += dim) {
#pragma omp simd  // A round's pairs are its own. Else short heads in bfloat16 are not vectorised.
      for (int64_t i = 0; i < half; ++i) {
        const float turn = direction * s[i];
        const float low = LoadFloat(x[i]);
        const float high = LoadFloat(x[i + half]);
        StoreFloat(low * c[i] - high * turn, y + i);
        StoreFloat(high * c[i] + low * turn, y + i + half);
      }
    }
  }
}

template <typename T>
inline __attribute__((always_inline)) void Gate(const T* gate, const T* up, int64_t size, T* y) {
  for (int64_t i = 0; i < size; ++i) {
    const float g = LoadFloat(gate[i]);
    StoreFloat(g / (1 + Exp(-g)) * LoadFloat(up[i]), y + i);
  }
}

template <typename T>
inline __attribute__((always_inline)) void GateBackward(const T* grad_y, const T* gate, const T* up,
                                                        int64_t size, T* grad_gate, T* grad_up) {
  for (int64_t i = 0; i < size; ++i) {
    const float grad = LoadFloat(grad_y[i]);
    const float g = LoadFloat(gate[i]);
    const float u = LoadFloat(up[i]);
    const float sigmoid = 1 / (1 + Exp(-g));
    StoreFloat(grad * g * sigmoid, grad_up + i);
    StoreFloat(grad * u * sigmoid * (1 + g * (1 - sigmoid)), grad_gate + i);
  }
}

}  // namespace

PACELINE_CPU_VERSIONS
void RmsNormRows(const float* x, const float* weight, int64_t rows, int64_t dim, float epsilon,
                 float* y, float* scale) {
  NormalizeRows(x, weight, rows, dim, epsilon, y, scale);
}

PACELINE_CPU_VERSIONS
void RmsNormRowsBackward(const float* grad_y, const float* x, const float* weight,
                         const float* scale, int64_t rows, int64_t dim, float* grad_x,
                         float* grad_weight) {
  NormalizeRowsBackward(grad_y, x, weight, scale, rows, dim, grad_x, grad_weight);
}

PACELINE_CPU_VERSIONS
void RotateRows(const float* x, const float* cos, const float* sin, int64_t first_row, int64_t rows,
                int64_t positions, int64_t heads, int64_t dim, float direction, float* y) {
  RotateHeads(x, cos, sin, first_row, rows, positions, heads, dim, direction, y);
}

PACELINE_CPU_VERSIONS
void SwiGluElements(const float* gate, const float* up, int64_t size, float* y) {
  Gate(gate, up, size, y);
}

PACELINE_CPU_VERSIONS
void SwiGluElementsBackward(const float* grad_y, const float* gate, const float* up, int64_t size,
                            float* grad_gate, float* grad_up) {
  GateBackward(grad_y, gate, up, size, grad_gate, grad_up);
}

PACELINE_CPU_VERSIONS
void RmsNormRows(const float* x, const float* weight, int64_t rows, int64_t dim, float epsilon,
                 uint16_t* y, float* scale) {
  NormalizeRows(x, weight, rows, dim, epsilon, y, scale);
}

PACELINE_CPU_VERSIONS
void RmsNormRowsBackward(const uint16_t* grad_y, const float* x, const float* weight,
                         const float* scale, int64_t rows, int64_t dim, float* grad_x,
                         float* grad_weight) {
  NormalizeRowsBackward(grad_y, x, weight, scale, rows, dim, grad_x, grad_weight);
}

PACELINE_CPU_VERSIONS
void RotateRows(const uint16_t* x, const float* cos, const float* sin, int64_t first_row,
                int64_t rows, int64_t positions, int64_t heads, int64_t dim, float direction,
                uint16_t* y) {
  RotateHeads(x, cos, sin, first_row, rows, positions, heads, dim, direction, y);
}

PACELINE_CPU_VERSIONS
void SwiGluElements(const uint16_t* gate, const uint16_t* up, int64_t size, uint16_t* y) {
  Gate(gate, up, size, y);
}

PACELINE_CPU_VERSIONS
void SwiGluElementsBackward(const uint16_t* grad_y, const uint16_t* gate, const uint16_t* up,
                            int64_t size, uint16_t* grad_gate, uint16_t* grad_up) {
  GateBackward(grad_y, gate, up, size, grad_gate, grad_up);
}

}  // namespace paceline
