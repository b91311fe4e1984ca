#include "worker/trainer/cuda/cuda_int8_codec.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "worker/trainer/comm/int8_check.h"
#include "worker/trainer/cuda/int8_kernels.h"

namespace paceline {

static_assert(kInt8Row == kInt8KernelRow, "the kernels' rows are not those of the codec");

void CudaInt8Codec::Encode(const at::Tensor& value, at::Tensor error, at::Tensor quantized,
                           at::Tensor scales) {
  CheckInt8Codes(c10::kCUDA, {value, error}, quantized, scales);
  if (value.numel() == 0) return;
  C10_CUDA_CHECK(LaunchInt8Encode(value.const_data_ptr<float>(), error.data_ptr<float>(),
                                  quantized.data_ptr<int8_t>(), scales.data_ptr<float>(),
                                  value.numel(), c10::cuda::getCurrentCUDAStream()));
}

void CudaInt8Codec::AddDecoded(const at::Tensor& quantized, const at::Tensor& scales, float factor,
                               at::Tensor sum) {
  CheckInt8Codes(c10::kCUDA, {sum}, quantized, scales);
  if (sum.numel() == 0) return;
  C10_CUDA_CHECK(LaunchInt8AddDecoded(quantized.const_data_ptr<int8_t>(),
                                      scales.const_data_ptr<float>(), factor, sum.data_ptr<float>(),
                                      sum.numel(), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace paceline
