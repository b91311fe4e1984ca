// The manual page, made from the tree of commands.
#ifndef CLI_COMPLETION_MAN_PAGE_H_
#define CLI_COMPLETION_MAN_PAGE_H_

#include <functional>
#include <string>
#include <vector>

#include "cli/completion/completion.h"

namespace paceline {

// Returns paceline(1), in the macros of man(7). `examples` returns the examples of a command, given
// by its path, as lines of text; the function may be empty.
std::string ManPage(const std::vector<CompletionCommand>& commands, const std::string& version,
                    const std::function<std::string(const std::string&)>& examples);

}  // namespace paceline

#endif  // CLI_COMPLETION_MAN_PAGE_H_
