// The examples in --help and the man page. A test runs them all (cli/tests/examples_test.cc).
#ifndef CLI_VERBS_PROGRAM_EXAMPLES_H_
#define CLI_VERBS_PROGRAM_EXAMPLES_H_

#include <string>

#include "absl/types/span.h"

namespace paceline {

struct Example {
  const char* path;  // The command it belongs to: "paceline job list".
  const char* line;  // As typed in a shell.
  const char* what;
};

absl::Span<const Example> Examples();

// "Examples:" and the command's lines, each with its description below; empty if there are none.
std::string ExamplesText(const std::string& path);

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_EXAMPLES_H_
