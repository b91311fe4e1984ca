#include "worker/trainer/comm/row_check.h"

#include <c10/util/Exception.h>

namespace paceline {
namespace {

void Check(const at::Tensor& tensor, c10::DeviceType device, at::ScalarType type, int64_t count) {
  TORCH_CHECK(tensor.device().type() == device && tensor.is_contiguous() &&
                  tensor.scalar_type() == type && tensor.numel() == count,
              "row codec: expected ", count, " contiguous values of type ", type, " on ", device,
              ", got ", tensor.toString(), " ", tensor.sizes());
}

}  // namespace

void CheckRowCodes(c10::DeviceType device, RowFormat format, at::ArrayRef<at::Tensor> values,
                   const RowCodes& codes) {
  const int64_t count = values.front().numel();
  for (const at::Tensor& tensor : values) Check(tensor, device, at::kFloat, count);
  Check(codes.codes, device, at::kByte, CodeBytes(format, count));
  Check(codes.scales, device, at::kFloat, RowsOf(count));
}

}  // namespace paceline
