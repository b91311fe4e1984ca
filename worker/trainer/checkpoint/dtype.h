// Converts between dtypes of safetensors ("F32") and of torch.
#ifndef WORKER_TRAINER_CHECKPOINT_DTYPE_H_
#define WORKER_TRAINER_CHECKPOINT_DTYPE_H_

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Empty if torch has no such dtype, or no model uses it.
std::optional<c10::ScalarType> TypeOfDtype(absl::string_view dtype);

// Empty if safetensors has no such type.
std::string DtypeOfType(c10::ScalarType type);

// Whether one of these F64, F32, F16 or BF16 values is NaN; false for any other dtype.
bool HasNan(absl::string_view dtype, absl::string_view bytes);

// FailedPrecondition that tells people that `tensor` has a NaN and is not saved.
absl::Status NanError(absl::string_view tensor);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_DTYPE_H_
