// Checks the arguments of both versions of the int8 codec.
#ifndef WORKER_TRAINER_COMM_INT8_CHECK_H_
#define WORKER_TRAINER_COMM_INT8_CHECK_H_

#include <ATen/core/Tensor.h>

namespace paceline {

// Throws c10::Error unless `values`, of equal size, and their codes are as Int8Codec requires:
// contiguous, on this type of device, with matching types and sizes.
void CheckInt8Codes(c10::DeviceType device, at::ArrayRef<at::Tensor> values,
                    const at::Tensor& quantized, const at::Tensor& scales);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_INT8_CHECK_H_
