// The dtypes of safetensors ("F32") as torch's.
#ifndef WORKER_TRAINER_CHECKPOINT_DTYPE_H_
#define WORKER_TRAINER_CHECKPOINT_DTYPE_H_

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paceline {

// Nothing if torch has no such dtype, or none that a model uses.
std::optional<c10::ScalarType> TypeOfDtype(absl::string_view dtype);

// Empty if safetensors have none.
std::string DtypeOfType(c10::ScalarType type);

// Whether a value of these, F64, F32, F16 or BF16, is NaN; false of any other dtype.
bool HasNan(absl::string_view dtype, absl::string_view bytes);

// FailedPrecondition, for people: that a tensor has such a value and is not saved.
absl::Status NanError(absl::string_view tensor);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_DTYPE_H_
