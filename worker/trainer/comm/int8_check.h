// What both versions of the int8 codec ask of their arguments.
#ifndef WORKER_TRAINER_COMM_INT8_CHECK_H_
#define WORKER_TRAINER_COMM_INT8_CHECK_H_

#include <ATen/core/Tensor.h>

namespace paceline {

// Throws c10::Error unless `values`, of one size each, and their codes are as Int8Codec says:
// contiguous, on a device of this type, and of the types and sizes that go together.
void CheckInt8Codes(c10::DeviceType device, at::ArrayRef<at::Tensor> values,
                    const at::Tensor& quantized, const at::Tensor& scales);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_INT8_CHECK_H_
