#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace paceline {
namespace {

spdlog::logger& Logger() {
  // Never destroyed: other threads may log during exit.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("paceline", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %L %v");
    made->flush_on(spdlog::level::debug);
    // log_options.cc finds the logger here.
    spdlog::register_logger(std::shared_ptr<spdlog::logger>(std::shared_ptr<void>(), made));
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kFatal:
      break;
  }
  return spdlog::level::critical;
}

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// Writes control characters as \x1b, so that a name or reason chosen by somebody cannot forge a
// line or control a terminal.
std::string WithoutControls(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      line.push_back(c);
      continue;
    }
    char escaped[5];
    std::snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
    line += escaped;
  }
  return line;
}

}  // namespace

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

LogLine::LogLine(LogLevel level, const char* file, int line)
    : level_(level), file_(file), line_(line) {}

LogLine::~LogLine() {
  if (level_ == LogLevel::kFatal) stream_ << " (" << BaseName(file_) << ":" << line_ << ")";
  Logger().log(ToSpdlog(level_), "{}", WithoutControls(stream_.str()));
  if (level_ == LogLevel::kFatal) std::abort();
}

}  // namespace paceline
