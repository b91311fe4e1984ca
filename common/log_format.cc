// A log line as JSON.
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "common/log_options.h"

namespace paceline {
namespace {

bool IsWord(absl::string_view text) {
  if (text.empty() || !absl::ascii_isalpha(text.front())) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

// Length of a value, which ends before a blank; with its quotes, if it has some: those at its end
// are followed by a blank or by nothing, so that others may stand within.
size_t LengthOfValue(absl::string_view text) {
  if (text.empty() || text.front() != '"') return std::min(text.find(' '), text.size());
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"' && (i + 1 == text.size() || text[i + 1] == ' ')) return i + 1;
  }
  return text.size();
}

absl::string_view Unquoted(absl::string_view value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace

std::string JsonLogLine(absl::Time time, LogLevel level, absl::string_view component,
                        absl::string_view message) {
  nlohmann::ordered_json line = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone())},
      {"level", LogLevelName(level)},
      {"component", std::string(component)},
      {"message", std::string(message)}};
  absl::string_view rest = message;
  const absl::string_view event = rest.substr(0, rest.find(' '));
  if (IsWord(event)) line["event"] = std::string(event);
  while (!rest.empty()) {
    const absl::string_view key = rest.substr(0, rest.find_first_of(" ="));
    rest.remove_prefix(key.size());
    if (!rest.empty() && rest.front() == '=' && IsWord(key)) {
      rest.remove_prefix(1);
      const absl::string_view value = rest.substr(0, LengthOfValue(rest));
      rest.remove_prefix(value.size());
      if (!line.contains(std::string(key))) line[std::string(key)] = std::string(Unquoted(value));
    } else if (!rest.empty()) {
      rest.remove_prefix(1);
    }
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace paceline
