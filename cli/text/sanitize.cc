#include "cli/text/sanitize.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/text/utf8.h"

namespace paceline {
namespace {

// Whether the character changes the order or direction of the text around it, or separates lines.
bool Reorders(uint32_t point) {
  return (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
         point == 0x061c || point == 0x200e || point == 0x200f || point == 0x2028 ||
         point == 0x2029;
}

bool IsControl(uint32_t point) {
  return (point < 0x20 && point != '\t' && point != '\n') || (point >= 0x7f && point < 0xa0);
}

}  // namespace

std::string Sanitize(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text[0] == '\r' && text.size() > 1 && text[1] == '\n') {
      text.remove_prefix(1);
      continue;
    }
    const Utf8Character decoded = FirstCharacter(text);
    const size_t length = std::max<size_t>(decoded.length, 1);
    if (decoded.length == 0) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (IsControl(decoded.point)) {
      absl::StrAppendFormat(&out, "\\x%02x", decoded.point);
    } else if (Reorders(decoded.point)) {
      absl::StrAppendFormat(&out, "\\u%04x", decoded.point);
    } else {
      absl::StrAppend(&out, text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string SanitizeLine(absl::string_view text) {
  std::string line = Sanitize(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

int DisplayWidth(absl::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size());
    } else if (!IsContinuation(text[i])) {
      ++width;
    }
  }
  return width;
}

std::string Shortened(absl::string_view text, int width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  const absl::string_view mark = width >= 6 ? "..." : "";
  const int kept = width - static_cast<int>(mark.size());
  int seen = 0;
  size_t end = 0;
  while (end < text.size() && (seen < kept || IsContinuation(text[end]))) {
    ++end;
    if (end == text.size() || !IsContinuation(text[end])) ++seen;
  }
  return absl::StrCat(text.substr(0, end), mark);
}

}  // namespace paceline
