#include "worker/trainer/cuda/cuda_int8_codec.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "worker/trainer/cuda/int8_kernels.h"

namespace paceline {
namespace {

static_assert(kInt8Row == kInt8KernelRow, "the kernels' rows are not those of the codec");

void Check(const at::Tensor& tensor, at::ScalarType type, int64_t count) {
  TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.scalar_type() == type &&
                  tensor.numel() == count,
              "int8 codec: expected ", count, " contiguous values of type ", type,
              " on a GPU, got ", tensor.toString(), " ", tensor.sizes());
}

void Check(const at::Tensor& values, const at::Tensor& quantized, const at::Tensor& scales) {
  const int64_t count = values.numel();
  Check(values, at::kFloat, count);
  Check(quantized, at::kChar, count);
  Check(scales, at::kFloat, (count + kInt8Row - 1) / kInt8Row);
}

}  // namespace

void CudaInt8Codec::Encode(const at::Tensor& value, at::Tensor error, at::Tensor quantized,
                           at::Tensor scales) {
  Check(value, quantized, scales);
  Check(error, at::kFloat, value.numel());
  if (value.numel() == 0) return;
  C10_CUDA_CHECK(LaunchInt8Encode(value.const_data_ptr<float>(), error.data_ptr<float>(),
                                  quantized.data_ptr<int8_t>(), scales.data_ptr<float>(),
                                  value.numel(), c10::cuda::getCurrentCUDAStream()));
}

void CudaInt8Codec::AddDecoded(const at::Tensor& quantized, const at::Tensor& scales, float factor,
                               at::Tensor sum) {
  Check(sum, quantized, scales);
  if (sum.numel() == 0) return;
  C10_CUDA_CHECK(LaunchInt8AddDecoded(quantized.const_data_ptr<int8_t>(),
                                      scales.const_data_ptr<float>(), factor, sum.data_ptr<float>(),
                                      sum.numel(), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace paceline
