// Exit codes of `paceline`, for scripts (docs/cli.md). Those of the daemons are in
// common/exit_codes.h.
#ifndef CLI_EXIT_CODES_H_
#define CLI_EXIT_CODES_H_

namespace paceline {

enum CliExit : int {
  kCliOk = 0,
  // The awaited job failed or was cancelled, or the command failed for a reason that has no code of
  // its own.
  kCliFailed = 1,
  kCliUsage = 2,        // Wrong flags, or an impossible job file or request.
  kCliNotFound = 3,     // No such job, node, checkpoint, context or file.
  kCliRefused = 4,      // The present state does not allow it; nothing was changed.
  kCliPermission = 5,   // Not permitted.
  kCliUnavailable = 6,  // The server did not answer.
  kCliTimeout = 7,      // Not done within the time given.
  kCliInterrupted = 130,
};

}  // namespace paceline

#endif  // CLI_EXIT_CODES_H_
