// The parts of a transformer block of the Llama family between its matrix products, with
// their gradients. Float tensors on the CPU take one pass each (cpu_kernels.h); others go
// through torch's operations.
#ifndef WORKER_TRAINER_MODEL_LLAMA_OPS_H_
#define WORKER_TRAINER_MODEL_LLAMA_OPS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace paceline {

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, in float: x [.., dim],
// weight [dim].
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// Angles of a rotary embedding, as cosines and sines: [length, head_dim / 2], float.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

// Position p turns pair i by p * theta^(-2 i / head_dim).
RotaryTable MakeRotaryTable(int64_t length, int64_t head_dim, double theta, at::Device device);

// Turns the pairs (i, i + head_dim / 2) of each head by the angles of its position, as Hugging
// Face's weights need it: x [batch, length, heads, head_dim], contiguous.
at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table);

// silu(gate) * up; equal shapes.
at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_LLAMA_OPS_H_
