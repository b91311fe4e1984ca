// Parses a daemon's flags, or decides how it exits instead.
#ifndef COMMON_PARSE_FLAGS_H_
#define COMMON_PARSE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "common/exit_codes.h"

namespace paceline {

// Parses the flags of `app`. Returns nothing to continue, otherwise the exit code: after --help or
// --version, for wrong flags, or when output cannot be written.
inline std::optional<int> ParseOrExit(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    const bool wrong = app.exit(error) != 0;
    std::cout.flush();
    if (!std::cout) {
      std::cerr << app.get_name() << ": the output cannot be written" << std::endl;
      return kExitFailure;
    }
    return wrong ? kExitUsage : kExitOk;
  }
}

}  // namespace paceline

#endif  // COMMON_PARSE_FLAGS_H_
