// The loops of a Llama on a GPU: one kernel for each.
#ifndef WORKER_TRAINER_CUDA_CUDA_LLAMA_KERNELS_H_
#define WORKER_TRAINER_CUDA_CUDA_LLAMA_KERNELS_H_

#include "worker/trainer/model/llama_kernels.h"

namespace paceline {

// Equal inputs give equal bits. All tensors are on the current device.
class CudaLlamaKernels : public LlamaKernels {
 public:
  void RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon, const at::Tensor& y,
               const at::Tensor& scale) const override;
  at::Tensor RmsNormBackward(const at::Tensor& grad_y, const at::Tensor& x,
                             const at::Tensor& weight, const at::Tensor& scale,
                             const at::Tensor& grad_x) const override;
  void Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int direction,
              const at::Tensor& y) const override;
  void SwiGlu(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& y) const override;
  void SwiGluBackward(const at::Tensor& grad_y, const at::Tensor& gate, const at::Tensor& up,
                      const at::Tensor& grad_gate, const at::Tensor& grad_up) const override;
  at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                          const at::Tensor& shares) const override;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_LLAMA_KERNELS_H_
