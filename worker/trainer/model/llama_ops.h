// The parts of a Llama transformer block between its matrix products, with gradients. `kernels`:
// those of the tensors' device, which take float and bfloat16; null, and other types: torch's
// operations. They must outlive the backward pass.
#ifndef WORKER_TRAINER_MODEL_LLAMA_OPS_H_
#define WORKER_TRAINER_MODEL_LLAMA_OPS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "worker/trainer/model/llama_kernels.h"

namespace paceline {

// Whether there are any for tensors of this type.
bool HasKernels(const LlamaKernels* kernels, const at::Tensor& x);

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, computed in float and rounded to
// `type`: x [.., dim], weight [dim].
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                   at::ScalarType type, const LlamaKernels* kernels);

// A rotary embedding's angles, as cosines and sines: [length, head_dim / 2], float.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

// At position p, pair i rotates by p * theta^(-2 i / head_dim).
RotaryTable MakeRotaryTable(int64_t length, int64_t head_dim, double theta, at::Device device);

// Rotates the pairs (i, i + head_dim / 2) of each head by its position's angles, as Hugging Face's
// weights require: x [batch, length, heads, head_dim].
at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table, const LlamaKernels* kernels);

// silu(gate) * up; both have the same shape.
at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up, const LlamaKernels* kernels);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_LLAMA_OPS_H_
