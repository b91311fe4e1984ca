// Paths that only a shell would expand.
#ifndef CLI_TEXT_SHELL_PATH_H_
#define CLI_TEXT_SHELL_PATH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

// Returns what is wrong with a path that begins with ~ or contains $NAME or ${NAME}, and what to
// do; empty: nothing is wrong. Nothing expands them, since the files are on nodes, which have homes
// and variables of their own.
std::string ShellPathProblem(absl::string_view path);

}  // namespace paceline

#endif  // CLI_TEXT_SHELL_PATH_H_
