// Paths in which only a shell would see more than letters.
#ifndef CLI_TEXT_SHELL_PATH_H_
#define CLI_TEXT_SHELL_PATH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

// What is wrong with a path that begins with ~ or has a $NAME or ${NAME} in it, and what to do;
// empty: nothing. Nobody expands them, since files are on nodes, with homes and variables of their
// own.
std::string ShellPathProblem(absl::string_view path);

}  // namespace paceline

#endif  // CLI_TEXT_SHELL_PATH_H_
