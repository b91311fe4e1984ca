#include "worker/trainer/checkpoint/dtype.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

struct Dtype {
  const char* name;
  c10::ScalarType type;
};
constexpr Dtype kDtypes[] = {{"F64", c10::kDouble},    {"F32", c10::kFloat}, {"F16", c10::kHalf},
                             {"BF16", c10::kBFloat16}, {"I64", c10::kLong},  {"I32", c10::kInt},
                             {"I16", c10::kShort},     {"I8", c10::kChar},   {"U8", c10::kByte},
                             {"BOOL", c10::kBool}};

// A NaN has all bits of the exponent set and a mantissa that is not zero: without its sign it is
// above infinity.
template <typename Bits>
bool HasMoreThan(Bits infinity, absl::string_view bytes) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  bool found = false;
  for (size_t i = 0; i + sizeof(Bits) <= bytes.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i, sizeof(Bits));
    found |= static_cast<Bits>(bits & ~kSign) > infinity;
  }
  return found;
}

}  // namespace

bool HasNan(absl::string_view dtype, absl::string_view bytes) {
  if (dtype == "F32") return HasMoreThan<uint32_t>(0x7F800000, bytes);
  if (dtype == "F64") return HasMoreThan<uint64_t>(0x7FF0000000000000, bytes);
  if (dtype == "BF16") return HasMoreThan<uint16_t>(0x7F80, bytes);
  if (dtype == "F16") return HasMoreThan<uint16_t>(0x7C00, bytes);
  return false;
}

absl::Status NanError(absl::string_view tensor) {
  return absl::FailedPreconditionError(
      absl::StrCat(tensor,
                   " has a value that is not a number, and is not saved unless the job has "
                   "save_nan: true"));
}

std::optional<c10::ScalarType> TypeOfDtype(absl::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (dtype == known.name) return known.type;
  }
  return std::nullopt;
}

std::string DtypeOfType(c10::ScalarType type) {
  for (const Dtype& known : kDtypes) {
    if (type == known.type) return known.name;
  }
  return std::string();
}

}  // namespace paceline
