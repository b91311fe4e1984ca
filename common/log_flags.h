// A daemon's flags for its log: --log-format and --log-level.
#ifndef COMMON_LOG_FLAGS_H_
#define COMMON_LOG_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "common/log_options.h"

namespace paceline {

// `flags` must outlive `app`.
inline void AddLogFlags(CLI::App& app, LogFlags& flags) {
  app.add_option("--log-format", flags.format, "Form of the log lines on standard error")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--log-level", flags.level, "Lines below this level are not written")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
}

}  // namespace paceline

#endif  // COMMON_LOG_FLAGS_H_
