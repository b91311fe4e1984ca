// Checks the arguments of both versions of the row codec.
#ifndef WORKER_TRAINER_COMM_ROW_CHECK_H_
#define WORKER_TRAINER_COMM_ROW_CHECK_H_

#include <ATen/core/Tensor.h>

#include "worker/trainer/comm/row_codec.h"

namespace paceline {

// Throws c10::Error unless `values`, of equal size, and their codes are as RowCodec requires:
// contiguous, on this type of device, with matching types and sizes.
void CheckRowCodes(c10::DeviceType device, RowFormat format, at::ArrayRef<at::Tensor> values,
                   const RowCodes& codes);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_ROW_CHECK_H_
