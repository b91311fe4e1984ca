// What a terminal shows of an overwritten line, as of a progress bar.
#ifndef COMMON_CORE_LAST_WRITTEN_H_
#define COMMON_CORE_LAST_WRITTEN_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace paceline {

// For a line without its newline: the part after the last "\r" that is not at the end.
inline absl::string_view LastWritten(absl::string_view line) {
  line = line.substr(0, line.find_last_not_of('\r') + 1);
  const size_t over = line.rfind('\r');
  if (over != absl::string_view::npos) line.remove_prefix(over + 1);
  return line;
}

}  // namespace paceline

#endif  // COMMON_CORE_LAST_WRITTEN_H_
