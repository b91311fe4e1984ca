// Truncates text without splitting a character.
#ifndef COMMON_CORE_UTF8_PREFIX_H_
#define COMMON_CORE_UTF8_PREFIX_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace paceline {

// The first bytes of `text`, at most `size`; UTF-8 stays valid UTF-8.
inline absl::string_view Utf8Prefix(absl::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace paceline

#endif  // COMMON_CORE_UTF8_PREFIX_H_
