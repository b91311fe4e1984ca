#include "worker/trainer/checkpoint/dtype.h"

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

}  // namespace

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
