// The codec on the CPU.
#ifndef WORKER_TRAINER_COMM_CPU_INT8_CODEC_H_
#define WORKER_TRAINER_COMM_CPU_INT8_CODEC_H_

#include "worker/trainer/comm/int8_codec.h"

namespace paceline {

class CpuInt8Codec : public Int8Codec {
 public:
  void Encode(const at::Tensor& value, at::Tensor error, at::Tensor quantized,
              at::Tensor scales) override;
  void AddDecoded(const at::Tensor& quantized, const at::Tensor& scales, float factor,
                  at::Tensor sum) override;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_CPU_INT8_CODEC_H_
