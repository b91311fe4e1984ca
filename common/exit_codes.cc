#include "common/exit_codes.h"

namespace paceline {

ExitCode StateExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kPermissionDenied:
      return kExitStateNotWritable;
    case absl::StatusCode::kFailedPrecondition:
      return kExitStateInUse;
    case absl::StatusCode::kDataLoss:
      return kExitStateDamaged;
    case absl::StatusCode::kOutOfRange:
      return kExitStateFromNewer;
    case absl::StatusCode::kResourceExhausted:
      return kExitNoSpace;
    case absl::StatusCode::kAborted:
      return kExitDeposed;
    default:
      return kExitFailure;
  }
}

}  // namespace paceline
