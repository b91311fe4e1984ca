#include "worker/trainer/comm/int8_check.h"

#include <c10/util/Exception.h>

#include "worker/trainer/comm/int8_codec.h"

namespace paceline {
namespace {

void Check(const at::Tensor& tensor, c10::DeviceType device, at::ScalarType type, int64_t count) {
  TORCH_CHECK(tensor.device().type() == device && tensor.is_contiguous() &&
                  tensor.scalar_type() == type && tensor.numel() == count,
              "int8 codec: expected ", count, " contiguous values of type ", type, " on ", device,
              ", got ", tensor.toString(), " ", tensor.sizes());
}

}  // namespace

void CheckInt8Codes(c10::DeviceType device, at::ArrayRef<at::Tensor> values,
                    const at::Tensor& quantized, const at::Tensor& scales) {
  const int64_t count = quantized.numel();
  Check(quantized, device, at::kChar, count);
  Check(scales, device, at::kFloat, (count + kInt8Row - 1) / kInt8Row);
  for (const at::Tensor& tensor : values) Check(tensor, device, at::kFloat, count);
}

}  // namespace paceline
