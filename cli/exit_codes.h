// How `paceline` ends, for scripts (docs/cli.md). The daemons' codes are in
// common/exit_codes.h.
#ifndef CLI_EXIT_CODES_H_
#define CLI_EXIT_CODES_H_

namespace paceline {

enum CliExit : int {
  kCliOk = 0,
  // The job that was waited for failed or was cancelled, or the command itself could not do
  // its work for a reason that has no code of its own.
  kCliFailed = 1,
  kCliUsage = 2,        // Wrong flags, or a job file or request that cannot be.
  kCliNotFound = 3,     // No such job, node, checkpoint, context or file.
  kCliRefused = 4,      // The state of things does not allow it; nothing was changed.
  kCliPermission = 5,   // Not allowed to.
  kCliUnavailable = 6,  // The server did not answer.
  kCliTimeout = 7,      // Not done within the time given.
  kCliInterrupted = 130,
};

}  // namespace paceline

#endif  // CLI_EXIT_CODES_H_
