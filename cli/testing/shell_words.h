// Command lines of examples and of pages, as a shell would read them.
#ifndef CLI_TESTING_SHELL_WORDS_H_
#define CLI_TESTING_SHELL_WORDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paceline {

// The words of the first command of `line`: quotes are taken away, and what follows "#", "|", "&",
// ";", "<" or ">" is left out, where it is not quoted or within a word.
std::vector<std::string> ShellWords(absl::string_view line);

// The lines in fenced blocks of a Markdown page that begin with "paceline " or "$ paceline ", with
// what follows a backslash at their end. Blocks marked as text (```text) are left out.
std::vector<std::string> PacelineLines(absl::string_view page);

// What stands in code marks (`...`) outside of such blocks and begins with "paceline ".
std::vector<std::string> PacelineMentions(absl::string_view page);

}  // namespace paceline

#endif  // CLI_TESTING_SHELL_WORDS_H_
