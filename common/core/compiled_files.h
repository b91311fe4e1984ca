// The files of a compiled model.
#ifndef COMMON_CORE_COMPILED_FILES_H_
#define COMMON_CORE_COMPILED_FILES_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace paceline {

inline constexpr char kCompiledSuffix[] = ".pt2";

// The initial weights of the model in this package, which ends in kCompiledSuffix.
inline std::string CompiledWeightsOf(absl::string_view package) {
  return absl::StrCat(absl::StripSuffix(package, kCompiledSuffix), ".safetensors");
}

}  // namespace paceline

#endif  // COMMON_CORE_COMPILED_FILES_H_
