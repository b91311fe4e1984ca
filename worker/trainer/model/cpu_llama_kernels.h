// The loops of a Llama between its matrix products, on the CPU, over the threads of torch's pool:
// each passes over memory once, where torch's operations would several times (docs/models.md).
//
// Tensors are contiguous, on the CPU, and do not overlap. T is float or bfloat16; bfloat16 is
// computed in float and rounded once. The order of a sum does not depend on the number of threads.
//
// Any thread. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_MODEL_CPU_LLAMA_KERNELS_H_
#define WORKER_TRAINER_MODEL_CPU_LLAMA_KERNELS_H_

#include <ATen/core/Tensor.h>

namespace paceline {

// Whether `x` is on the CPU and of type T.
bool HasCpuKernel(const at::Tensor& x);

// y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + epsilon) of each row: x float and y T
// are [rows, dim], weight float [dim], scale float [rows].
void RmsNormOnCpu(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                  const at::Tensor& y, const at::Tensor& scale);
// Writes the gradient of x, and returns that of the weight.
at::Tensor RmsNormBackwardOnCpu(const at::Tensor& grad_y, const at::Tensor& x,
                                const at::Tensor& weight, const at::Tensor& scale,
                                const at::Tensor& grad_x);

// Rotates each pair (i, i + head_dim / 2) of x [batch, length, heads, head_dim], T, by its
// position's angle: cos and sin are float [at least length, head_dim / 2]. `direction` is 1, or -1
// to rotate back.
void RotateOnCpu(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int direction,
                 const at::Tensor& y);

// y = silu(gate) * up; all T, of one shape.
void SwiGluOnCpu(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& y);
void SwiGluBackwardOnCpu(const at::Tensor& grad_y, const at::Tensor& gate, const at::Tensor& up,
                         const at::Tensor& grad_gate, const at::Tensor& grad_up);

// The log-probabilities, float [tokens], of `targets`, int64 [tokens], by logits T [tokens,
// classes]. If `shares`, float [tokens], is defined, replaces the logits by the gradient of
// -sum(shares * log-probabilities). Throws c10::IndexError if a target is no class.
at::Tensor CrossEntropyOnCpu(const at::Tensor& logits, const at::Tensor& targets,
                             const at::Tensor& shares);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CPU_LLAMA_KERNELS_H_
