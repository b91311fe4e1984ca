// The loops of a Llama between its matrix products, for one kind of device: each passes over memory
// once, where torch's operations would several times (docs/models.md).
//
// Tensors are contiguous, on that device, and do not overlap. T is float or bfloat16; bfloat16 is
// computed in float and rounded once. The order of a sum does not depend on the number of threads.
#ifndef WORKER_TRAINER_MODEL_LLAMA_KERNELS_H_
#define WORKER_TRAINER_MODEL_LLAMA_KERNELS_H_

#include <ATen/core/Tensor.h>

namespace paceline {

// Any thread. On a GPU, work goes to the current stream of the calling thread, and nothing waits.
// Torch's exceptions pass through.
class LlamaKernels {
 public:
  virtual ~LlamaKernels() = default;

  // y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + epsilon) of each row: x float and y T
  // are [rows, dim], weight float [dim], scale float [rows].
  virtual void RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                       const at::Tensor& y, const at::Tensor& scale) const = 0;
  // Writes the gradient of x, and returns that of the weight.
  virtual at::Tensor RmsNormBackward(const at::Tensor& grad_y, const at::Tensor& x,
                                     const at::Tensor& weight, const at::Tensor& scale,
                                     const at::Tensor& grad_x) const = 0;

  // Rotates each pair (i, i + head_dim / 2) of x [batch, length, heads, head_dim], T, by its
  // position's angle: cos and sin are float [at least length, head_dim / 2]. `direction` is 1, or
  // -1 to rotate back.
  virtual void Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                      int direction, const at::Tensor& y) const = 0;

  // y = silu(gate) * up; all T, of one shape.
  virtual void SwiGlu(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& y) const = 0;
  virtual void SwiGluBackward(const at::Tensor& grad_y, const at::Tensor& gate,
                              const at::Tensor& up, const at::Tensor& grad_gate,
                              const at::Tensor& grad_up) const = 0;

  // The log-probabilities, float [tokens], of `targets`, int64 [tokens], by logits T [tokens,
  // classes]. If `shares`, float [tokens], is defined, replaces the logits by the gradient of
  // -sum(shares * log-probabilities). A target that is no class is an error: on a GPU one that ends
  // the process's use of it, as torch's.
  virtual at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                  const at::Tensor& shares) const = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_LLAMA_KERNELS_H_
