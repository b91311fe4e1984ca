// Wraps text.
#ifndef CLI_TEXT_WRAPPED_H_
#define CLI_TEXT_WRAPPED_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/text/sanitize.h"

namespace paceline {

// Returns the words of `text` in lines of `room` columns; 0: in one line. A longer word gets a line
// of its own, or several, broken after commas.
inline std::vector<std::string> Wrapped(absl::string_view text, int room) {
  std::vector<std::string> lines(1);
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!lines.back().empty()) {
      if (room == 0 || DisplayWidth(lines.back()) + 1 + DisplayWidth(word) <= room) {
        absl::StrAppend(&lines.back(), " ", word);
        continue;
      }
      lines.emplace_back();
    }
    while (room > 0 && DisplayWidth(word) > room) {
      const size_t comma = word.rfind(',', static_cast<size_t>(room) - 1);
      if (comma == word.npos) break;
      lines.back() = std::string(word.substr(0, comma + 1));
      lines.emplace_back();
      word.remove_prefix(comma + 1);
    }
    lines.back() = std::string(word);
  }
  return lines;
}

}  // namespace paceline

#endif  // CLI_TEXT_WRAPPED_H_
