// The element-wise parts of a Llama as single passes over float rows in memory, for the CPU.
// Torch has none of them fused there; composed of its operations they take several passes,
// each through the whole of main memory (docs/models.md has the figures).
//
// All arrays are contiguous and none overlaps another. Single-threaded; callers split rows.
#ifndef WORKER_TRAINER_MODEL_CPU_KERNELS_H_
#define WORKER_TRAINER_MODEL_CPU_KERNELS_H_

#include <cstdint>

namespace paceline {

// y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + epsilon) of each row. x and y are
// [rows, dim], weight [dim], scale [rows].
void RmsNormRows(const float* x, const float* weight, int64_t rows, int64_t dim, float epsilon,
                 float* y, float* scale);

// The gradient of x, [rows, dim], and that of weight, [dim], from these rows alone.
void RmsNormRowsBackward(const float* grad_y, const float* x, const float* weight,
                         const float* scale, int64_t rows, int64_t dim, float* grad_x,
                         float* grad_weight);

// Turns each pair (x[i], x[i + dim/2]) of a head by the angle of its position: x and y are
// [rows, heads, dim], cos and sin [positions, dim/2]. Row r is at position
// (first_row + r) % positions. `direction` is 1, or -1 to turn back.
void RotateRows(const float* x, const float* cos, const float* sin, int64_t first_row, int64_t rows,
                int64_t positions, int64_t heads, int64_t dim, float direction, float* y);

// y = silu(gate) * up with silu(g) = g / (1 + exp(-g)), to a relative error of about 1e-7.
void SwiGluElements(const float* gate, const float* up, int64_t size, float* y);

void SwiGluElementsBackward(const float* grad_y, const float* gate, const float* up, int64_t size,
                            float* grad_gate, float* grad_up);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CPU_KERNELS_H_
