// Parses the command lines of examples and pages as a shell would.
#ifndef CLI_TESTING_SHELL_WORDS_H_
#define CLI_TESTING_SHELL_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paceline {

// Words of the first command in `line`. Quotes are removed; what follows "#", "|", "&", ";", "<" or
// ">" is left out, unless it is quoted or within a word.
std::vector<std::string> ShellWords(absl::string_view line);

// Lines in fenced blocks of a Markdown page that begin with "paceline " or "$ paceline ", joined
// with the next line after a backslash. Blocks marked as text (```text) are left out.
std::vector<std::string> PacelineLines(absl::string_view page);

// Texts in code marks (`...`) outside such blocks that begin with "paceline ".
std::vector<std::string> PacelineMentions(absl::string_view page);

}  // namespace paceline

#endif  // CLI_TESTING_SHELL_WORDS_H_
