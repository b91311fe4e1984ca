#include "common/log_options.h"

#include <spdlog/formatter.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

namespace paceline {
namespace {

// As common/log.cc has them.
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
  // common/log.cc makes it when it is first used, with this level.
  if (spdlog::get("paceline") == nullptr) SetLogLevel(LogLevel::kInfo);
  return *spdlog::get("paceline");
}

}  // namespace

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
