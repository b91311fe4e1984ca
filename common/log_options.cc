#include "common/log_options.h"

#include <spdlog/formatter.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"

namespace paceline {
namespace {

bool IsWord(absl::string_view text) {
  if (text.empty() || !absl::ascii_isalpha(text.front())) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

// Length of a value. It ends before a blank; a quoted value ends at a quote that is followed by a
// blank or by nothing, so it may contain quotes.
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

// The mapping is that of common/log.cc.
LogLevel FromSpdlog(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarning;
    case spdlog::level::err:
      return LogLevel::kError;
    default:
      return LogLevel::kFatal;
  }
}

class JsonFormatter : public spdlog::formatter {
 public:
  explicit JsonFormatter(std::string component) : component_(std::move(component)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const std::string line =
        JsonLogLine(absl::FromChrono(message.time), FromSpdlog(message.level), component_,
                    absl::string_view(message.payload.data(), message.payload.size()));
    out.append(line.data(), line.data() + line.size());
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(component_);
  }

 private:
  const std::string component_;
};

spdlog::logger& Logger() {
  // At its first use, common/log.cc creates the logger with this level.
  if (spdlog::get("paceline") == nullptr) SetLogLevel(LogLevel::kInfo);
  return *spdlog::get("paceline");
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

void SetLogFormat(LogFormat format, const std::string& component) {
  if (format == LogFormat::kJson) {
    Logger().set_formatter(std::make_unique<JsonFormatter>(component));
  }
}

void ApplyLogFlags(const LogFlags& flags, const std::string& component) {
  SetLogFormat(flags.format == "json" ? LogFormat::kJson : LogFormat::kText, component);
  SetLogLevel(*ParseLogLevel(flags.level));
}

std::optional<LogLevel> ParseLogLevel(absl::string_view name) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (name == LogLevelName(level)) return level;
  }
  return std::nullopt;
}

LogLevel CurrentLogLevel() { return FromSpdlog(Logger().level()); }

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kFatal:
      break;
  }
  return "fatal";
}

}  // namespace paceline
