// Row-wise encoding in a number format (row_formats.h) with error feedback, on one device. The CPU
// and the CUDA version give the same bits: every operation is a single correctly rounded one.
#ifndef WORKER_TRAINER_COMM_ROW_CODEC_H_
#define WORKER_TRAINER_COMM_ROW_CODEC_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "worker/trainer/comm/row_formats.h"
#include "worker/trainer/config.h"

namespace paceline {

// The rows of a flat tensor; the last one may be shorter.
inline int64_t RowsOf(int64_t values) { return (values + kRowValues - 1) / kRowValues; }

// Null: values travel as they are.
inline std::optional<RowFormat> RowFormatOf(WireFormat format) {
  switch (format) {
    case WireFormat::kFp32:
      return std::nullopt;
    case WireFormat::kFp16:
      return RowFormat::kFp16;
    case WireFormat::kBf16:
      return RowFormat::kBf16;
    case WireFormat::kInt8:
      return RowFormat::kInt8;
    case WireFormat::kFp8:
      return RowFormat::kFp8;
    case WireFormat::kInt4:
      return RowFormat::kInt4;
  }
  return std::nullopt;
}

// Of n values.
struct RowCodes {
  at::Tensor codes;   // Bytes [CodeBytes(format, n)].
  at::Tensor scales;  // Float [RowsOf(n)].
};

// Thread-compatible. Torch's exceptions pass through.
class RowCodec {
 public:
  virtual ~RowCodec() = default;

  // Encodes value + error, both float [n], into `codes`, and leaves the rounding error in `error`.
  virtual void Encode(RowFormat format, const at::Tensor& value, at::Tensor error,
                      const RowCodes& codes) = 0;

  // Adds `factor` times the decoded values of `codes` to `sum`, float [n].
  virtual void AddDecoded(RowFormat format, const RowCodes& codes, float factor,
                          at::Tensor sum) = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_ROW_CODEC_H_
