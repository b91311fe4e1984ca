#include "worker/trainer/cuda/cuda_row_codec.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "worker/trainer/comm/row_check.h"
#include "worker/trainer/cuda/row_kernels.h"

namespace paceline {

void CudaRowCodec::Encode(RowFormat format, const at::Tensor& value, at::Tensor error,
                          const RowCodes& codes) {
  CheckRowCodes(c10::kCUDA, format, {value, error}, codes);
  if (value.numel() == 0) return;
  C10_CUDA_CHECK(LaunchRowEncode(format, value.const_data_ptr<float>(), error.data_ptr<float>(),
                                 codes.codes.data_ptr(), codes.scales.data_ptr<float>(),
                                 value.numel(), c10::cuda::getCurrentCUDAStream()));
}

void CudaRowCodec::AddDecoded(RowFormat format, const RowCodes& codes, float factor,
                              at::Tensor sum) {
  CheckRowCodes(c10::kCUDA, format, {sum}, codes);
  if (sum.numel() == 0) return;
  C10_CUDA_CHECK(LaunchRowAddDecoded(
      format, codes.codes.const_data_ptr(), codes.scales.const_data_ptr<float>(), factor,
      sum.data_ptr<float>(), sum.numel(), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace paceline
