// Number formats of exported weights. Conversion rounds to the nearest value, halves to even, as
// IEEE 754 has it: what is too large becomes infinite, NaN stays NaN, tiny values become
// subnormal.
#ifndef COMMON_EXPORT_FLOAT_FORMAT_H_
#define COMMON_EXPORT_FLOAT_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

enum class FloatFormat { kFp32, kBf16, kFp16 };

// As safetensors names it: "F32", "BF16", "F16".
const char* DtypeOf(FloatFormat format);
// As PyTorch names it: "float32", "bfloat16", "float16".
const char* TorchNameOf(FloatFormat format);

uint16_t ToBf16(float value);
uint16_t ToFp16(float value);

// `bytes`: fp32 values, little-endian, anywhere in memory. The same in `format`, appended.
void AppendConverted(absl::string_view bytes, FloatFormat format, std::string* out);

}  // namespace paceline

#endif  // COMMON_EXPORT_FLOAT_FORMAT_H_
