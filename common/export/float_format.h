// Number formats of exported weights. Conversion rounds to the nearest value, halves to even, as in
// IEEE 754: too large values become infinite, NaN stays NaN, tiny values become subnormal.
#ifndef COMMON_EXPORT_FLOAT_FORMAT_H_
#define COMMON_EXPORT_FLOAT_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

enum class FloatFormat { kFp32, kBf16, kFp16 };

// The name in safetensors: "F32", "BF16", "F16".
const char* DtypeOf(FloatFormat format);
// The name in PyTorch: "float32", "bfloat16", "float16".
const char* TorchNameOf(FloatFormat format);

uint16_t ToBf16(float value);
uint16_t ToFp16(float value);

// Converts `bytes` (little-endian fp32 values, any alignment) and appends them to `out`.
void AppendConverted(absl::string_view bytes, FloatFormat format, std::string* out);

}  // namespace paceline

#endif  // COMMON_EXPORT_FLOAT_FORMAT_H_
