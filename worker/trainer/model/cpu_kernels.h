// The element-wise parts of a Llama as single passes over rows, for the CPU. Torch has no fused
// versions there; composing its operations takes several passes, each through main memory
// (docs/models.md has figures).
//
// Values are floats, or bfloat16 given by their bits (uint16_t), which are computed in float and
// rounded once. All arrays are contiguous and do not overlap. Single-threaded; callers split rows.
#ifndef WORKER_TRAINER_MODEL_CPU_KERNELS_H_
#define WORKER_TRAINER_MODEL_CPU_KERNELS_H_

#include <cstdint>

namespace paceline {

// y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + epsilon) of each row. x and y are
// [rows, dim], weight [dim], scale [rows].
void RmsNormRows(const float* x, const float* weight, int64_t rows, int64_t dim, float epsilon,
                 float* y, float* scale);
void RmsNormRows(const float* x, const float* weight, int64_t rows, int64_t dim, float epsilon,
                 uint16_t* y, float* scale);

// The gradient of x, [rows, dim], and these rows' part of the weight's gradient, [dim].
void RmsNormRowsBackward(const float* grad_y, const float* x, const float* weight,
                         const float* scale, int64_t rows, int64_t dim, float* grad_x,
                         float* grad_weight);
void RmsNormRowsBackward(const uint16_t* grad_y, const float* x, const float* weight,
                         const float* scale, int64_t rows, int64_t dim, float* grad_x,
                         float* grad_weight);

// Rotates each pair (x[i], x[i + dim/2]) of a head by its position's angle: x and y are [rows,
// heads, dim], cos and sin [positions, dim/2]. Row r has position (first_row + r) % positions.
// `direction` is 1, or -1 to rotate back.
void RotateRows(const float* x, const float* cos, const float* sin, int64_t first_row, int64_t rows,
                int64_t positions, int64_t heads, int64_t dim, float direction, float* y);
void RotateRows(const uint16_t* x, const float* cos, const float* sin, int64_t first_row,
                int64_t rows, int64_t positions, int64_t heads, int64_t dim, float direction,
                uint16_t* y);

// y = silu(gate) * up with silu(g) = g / (1 + exp(-g)); relative error about 1e-7 before rounding.
void SwiGluElements(const float* gate, const float* up, int64_t size, float* y);
void SwiGluElements(const uint16_t* gate, const uint16_t* up, int64_t size, uint16_t* y);

void SwiGluElementsBackward(const float* grad_y, const float* gate, const float* up, int64_t size,
                            float* grad_gate, float* grad_up);
void SwiGluElementsBackward(const uint16_t* grad_y, const uint16_t* gate, const uint16_t* up,
                            int64_t size, uint16_t* grad_gate, uint16_t* grad_up);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CPU_KERNELS_H_
