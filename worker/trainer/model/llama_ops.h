// The parts of a Llama transformer block between its matrix products, with gradients. Tensors of
// floats and bfloat16 on the CPU take one pass each (cpu_llama_kernels.h); others use torch's
// operations.
#ifndef WORKER_TRAINER_MODEL_LLAMA_OPS_H_
#define WORKER_TRAINER_MODEL_LLAMA_OPS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace paceline {

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, computed in float and rounded to
// `type`: x [.., dim], weight [dim].
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                   at::ScalarType type);

// A rotary embedding's angles, as cosines and sines: [length, head_dim / 2], float.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

// At position p, pair i rotates by p * theta^(-2 i / head_dim).
RotaryTable MakeRotaryTable(int64_t length, int64_t head_dim, double theta, at::Device device);

// Rotates the pairs (i, i + head_dim / 2) of each head by its position's angles, as Hugging Face's
// weights require: x [batch, length, heads, head_dim].
at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table);

// silu(gate) * up; both have the same shape.
at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_LLAMA_OPS_H_
