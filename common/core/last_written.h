// What a terminal would show of a line that was written over, as progress bars do.
#ifndef COMMON_CORE_LAST_WRITTEN_H_
#define COMMON_CORE_LAST_WRITTEN_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace paceline {

// Of a line without its newline: what follows the last "\r" that anything follows.
inline absl::string_view LastWritten(absl::string_view line) {
  line = line.substr(0, line.find_last_not_of('\r') + 1);
  const size_t over = line.rfind('\r');
  if (over != absl::string_view::npos) line.remove_prefix(over + 1);
  return line;
}

}  // namespace paceline

#endif  // COMMON_CORE_LAST_WRITTEN_H_
