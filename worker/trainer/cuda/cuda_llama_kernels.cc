#include "worker/trainer/cuda/cuda_llama_kernels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "worker/trainer/cuda/llama_launch.h"

namespace paceline {
namespace {

Element ElementOf(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return Element::kFloat;
  TORCH_CHECK(tensor.scalar_type() == at::kBFloat16, "no kernel for ", tensor.scalar_type());
  return Element::kBfloat16;
}

const float* From(const at::Tensor& tensor) { return tensor.const_data_ptr<float>(); }
float* To(const at::Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

cudaStream_t Stream() { return c10::cuda::getCurrentCUDAStream(); }

}  // namespace

void CudaLlamaKernels::RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                               const at::Tensor& y, const at::Tensor& scale) const {
  if (x.numel() == 0) return;
  C10_CUDA_CHECK(LaunchRmsNorm(ElementOf(y), From(x), From(weight), x.size(0), x.size(1),
                               static_cast<float>(epsilon), y.mutable_data_ptr(), To(scale),
                               Stream()));
}

at::Tensor CudaLlamaKernels::RmsNormBackward(const at::Tensor& grad_y, const at::Tensor& x,
                                             const at::Tensor& weight, const at::Tensor& scale,
                                             const at::Tensor& grad_x) const {
  if (x.numel() == 0) return at::zeros_like(weight);
  const int64_t rows = x.size(0);
  const int64_t dim = x.size(1);
  const at::Tensor partial =
      at::empty({(rows + kRowsPerSum - 1) / kRowsPerSum, dim}, weight.options());
  C10_CUDA_CHECK(LaunchRmsNormBackward(ElementOf(grad_y), grad_y.const_data_ptr(), From(x),
                                       From(weight), From(scale), rows, dim, To(grad_x),
                                       To(partial), Stream()));
  return partial.sum(0);
}

void CudaLlamaKernels::Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                              int direction, const at::Tensor& y) const {
  if (x.numel() == 0) return;
  C10_CUDA_CHECK(LaunchRotate(ElementOf(x), x.const_data_ptr(), From(cos), From(sin),
                              x.size(0) * x.size(1), x.size(1), static_cast<int>(x.size(2)),
                              static_cast<int>(x.size(3)), static_cast<float>(direction),
                              y.mutable_data_ptr(), Stream()));
}

void CudaLlamaKernels::SwiGlu(const at::Tensor& gate, const at::Tensor& up,
                              const at::Tensor& y) const {
  if (gate.numel() == 0) return;
  C10_CUDA_CHECK(LaunchSwiGlu(ElementOf(gate), gate.const_data_ptr(), up.const_data_ptr(),
                              gate.numel(), y.mutable_data_ptr(), Stream()));
}

void CudaLlamaKernels::SwiGluBackward(const at::Tensor& grad_y, const at::Tensor& gate,
                                      const at::Tensor& up, const at::Tensor& grad_gate,
                                      const at::Tensor& grad_up) const {
  if (gate.numel() == 0) return;
  C10_CUDA_CHECK(LaunchSwiGluBackward(
      ElementOf(gate), grad_y.const_data_ptr(), gate.const_data_ptr(), up.const_data_ptr(),
      gate.numel(), grad_gate.mutable_data_ptr(), grad_up.mutable_data_ptr(), Stream()));
}

at::Tensor CudaLlamaKernels::CrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                          const at::Tensor& shares) const {
  at::Tensor log_probabilities = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  if (logits.numel() == 0) return log_probabilities;
  C10_CUDA_CHECK(LaunchCrossEntropy(ElementOf(logits), logits.mutable_data_ptr(), logits.size(0),
                                    logits.size(1), targets.const_data_ptr<int64_t>(),
                                    shares.defined() ? From(shares) : nullptr,
                                    To(log_probabilities), Stream()));
  return log_probabilities;
}

}  // namespace paceline
