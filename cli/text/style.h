// Colours on a terminal.
#ifndef CLI_TEXT_STYLE_H_
#define CLI_TEXT_STYLE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paceline {

enum class Colour { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };

// Returns `text` in `colour` if `enabled`, else unchanged.
inline std::string Painted(absl::string_view text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::kNone) return std::string(text);
  constexpr const char* kCodes[] = {"0", "1", "2", "31", "32", "33", "36"};
  return absl::StrCat("\x1b[", kCodes[static_cast<int>(colour)], "m", text, "\x1b[0m");
}

}  // namespace paceline

#endif  // CLI_TEXT_STYLE_H_
