// Exit codes of our daemons, so that an operator's script can tell causes apart. The CLI's codes
// are in cli/exit_codes.h.
#ifndef COMMON_EXIT_CODES_H_
#define COMMON_EXIT_CODES_H_

#include "absl/status/status.h"

namespace paceline {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,
  kExitUsage = 2,
  kExitCannotListen = 10,      // Port in use, or an address that is not ours.
  kExitStateNotWritable = 11,  // State directory missing, read-only or owned by others.
  kExitStateFromNewer = 12,    // Written by a newer version.
  kExitStateDamaged = 13,      // Cannot be read; nothing was overwritten.
  kExitNoSpace = 14,           // The disk is full.
  kExitStateInUse = 15,        // Another process holds the state directory.
  kExitDeposed = 16,           // Another controller leads; this one stands by when started again.
  kExitNoIdentity = 18,        // TLS files missing, not usable, or not valid by this clock.
};

// The exit code of a daemon that cannot use its state. PermissionDenied, FailedPrecondition (in
// use), OutOfRange (from a newer version), DataLoss, ResourceExhausted and Aborted (another
// controller leads) have codes of their own.
ExitCode StateExitCode(const absl::Status& status);

}  // namespace paceline

#endif  // COMMON_EXIT_CODES_H_
