// The row codec on a GPU: one kernel for each method, in the current stream.
#ifndef WORKER_TRAINER_CUDA_CUDA_ROW_CODEC_H_
#define WORKER_TRAINER_CUDA_CUDA_ROW_CODEC_H_

#include "worker/trainer/comm/row_codec.h"

namespace paceline {

// All tensors are contiguous and on the current device.
class CudaRowCodec : public RowCodec {
 public:
  void Encode(RowFormat format, const at::Tensor& value, at::Tensor error,
              const RowCodes& codes) override;
  void AddDecoded(RowFormat format, const RowCodes& codes, float factor, at::Tensor sum) override;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CUDA_CUDA_ROW_CODEC_H_
