// Row-wise int8 quantisation with error feedback, on one device.
//
// A row is 512 consecutive values x of a flat float tensor; the last one may be shorter. With
// s = max|x| / 127, a value is sent as q = round(x / s), halves to even, and understood as
// q * s; a row of zeros has s = 0 and q = 0. The CPU and the CUDA version give the same
// bits: every operation is a single correctly rounded one.
#ifndef WORKER_TRAINER_COMM_INT8_CODEC_H_
#define WORKER_TRAINER_COMM_INT8_CODEC_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace paceline {

inline constexpr int64_t kInt8Row = 512;

// Thread-compatible. Torch's exceptions pass through.
class Int8Codec {
 public:
  virtual ~Int8Codec() = default;

  // Quantises value + error, both float [n], into `quantized` (int8 [n]) and `scales` (float
  // [ceil(n / 512)]), and leaves the rounding error in `error`.
  virtual void Encode(const at::Tensor& value, at::Tensor error, at::Tensor quantized,
                      at::Tensor scales) = 0;

  // Adds `factor` times the decoded values of `quantized` and `scales` to `sum` (float [n]).
  virtual void AddDecoded(const at::Tensor& quantized, const at::Tensor& scales, float factor,
                          at::Tensor sum) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_INT8_CODEC_H_
