// "Did you mean ...?"
#ifndef CLI_TEXT_NEAREST_H_
#define CLI_TEXT_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paceline {

// Number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int EditDistance(absl::string_view a, absl::string_view b);

// Returns the candidate nearest to `word`, the first of equals; empty if none is near enough to be
// meant (at most a third of the longer word's letters may differ, but always one).
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace paceline

#endif  // CLI_TEXT_NEAREST_H_
