// The examples in --help and in the man page. Each is run by a test (cli/tests/examples_test.cc).
#ifndef CLI_VERBS_PROGRAM_EXAMPLES_H_
#define CLI_VERBS_PROGRAM_EXAMPLES_H_

#include <string>

#include "absl/types/span.h"

namespace paceline {

struct Example {
  const char* path;  // Command that it is about: "paceline job list".
  const char* line;  // As a shell takes it.
  const char* what;
};

absl::Span<const Example> Examples();

// "Examples:" and the command's lines, each with what it does below it; empty when there are none.
std::string ExamplesText(const std::string& path);

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_EXAMPLES_H_
