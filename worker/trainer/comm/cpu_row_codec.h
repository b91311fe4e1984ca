// The codec on the CPU.
#ifndef WORKER_TRAINER_COMM_CPU_ROW_CODEC_H_
#define WORKER_TRAINER_COMM_CPU_ROW_CODEC_H_

#include "worker/trainer/comm/row_codec.h"

namespace paceline {

class CpuRowCodec : public RowCodec {
 public:
  void Encode(RowFormat format, const at::Tensor& value, at::Tensor error,
              const RowCodes& codes) override;
  void AddDecoded(RowFormat format, const RowCodes& codes, float factor, at::Tensor sum) override;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CPU_ROW_CODEC_H_
