// The format of a daemon's log lines, set once from its flags; see common/log.h for contents.
#ifndef COMMON_LOG_OPTIONS_H_
#define COMMON_LOG_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/log.h"

namespace paceline {

enum class LogFormat {
  kText,  // 2026-03-01T12:00:00.000+00:00 I worker_connected node=w1
  kJson,  // One object per line, see JsonLogLine.
};

// `component` names the program in JSON lines.
void SetLogFormat(LogFormat format, const std::string& component);

// Parses "debug", "info", "warning" or "error"; nothing for any other word.
std::optional<LogLevel> ParseLogLevel(absl::string_view name);
// The current level.
LogLevel CurrentLogLevel();
// Returns the names above, and "fatal".
const char* LogLevelName(LogLevel level);

// The values of the flags --log-format and --log-level (common/log_flags.h).
struct LogFlags {
  std::string format = "text";
  std::string level = "info";
};
// Requires: valid values.
void ApplyLogFlags(const LogFlags& flags, const std::string& component);

// A line as JSON: time (RFC 3339, UTC), level, component, event, message, and a string for each
// field of the message. `message` is always complete; if it is not of the form
//   EVENT KEY=VALUE KEY="VALUE WITH BLANKS" ...
// `event` and unreadable fields are left out. So are fields named like one of those above. Bytes
// that are not UTF-8 are replaced. No newline at the end.
std::string JsonLogLine(absl::Time time, LogLevel level, absl::string_view component,
                        absl::string_view message);

}  // namespace paceline

#endif  // COMMON_LOG_OPTIONS_H_
