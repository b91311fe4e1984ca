// How a daemon's log lines look, set once from its flags; see common/log.h for what is logged.
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
  kJson,  // One object a line, see JsonLogLine.
};

// `component` names the program in JSON lines.
void SetLogFormat(LogFormat format, const std::string& component);

// "debug", "info", "warning", "error"; nothing for another word.
std::optional<LogLevel> ParseLogLevel(absl::string_view name);
// The level that is set.
LogLevel CurrentLogLevel();
// "fatal", too.
const char* LogLevelName(LogLevel level);

// What the flags --log-format and --log-level say (common/log_flags.h).
struct LogFlags {
  std::string format = "text";
  std::string level = "info";
};
// Requires: valid values.
void ApplyLogFlags(const LogFlags& flags, const std::string& component);

// A line as JSON: time (RFC 3339, UTC), level, component, event, message, and a string for each
// field of the message. The message is whole, so nothing is lost where it is not of the form
//   EVENT KEY=VALUE KEY="VALUE WITH BLANKS" ...
// then `event` and the fields that cannot be read are left out. A field whose name is one of those
// above is left out, too. Bytes that are not UTF-8 are replaced. Without a newline at its end.
std::string JsonLogLine(absl::Time time, LogLevel level, absl::string_view component,
                        absl::string_view message);

}  // namespace paceline

#endif  // COMMON_LOG_OPTIONS_H_
