// Cuts text without leaving a part of a character.
#ifndef COMMON_CORE_UTF8_PREFIX_H_
#define COMMON_CORE_UTF8_PREFIX_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace paceline {

// At most `size` bytes of the beginning of `text`; of UTF-8 it stays UTF-8.
inline absl::string_view Utf8Prefix(absl::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace paceline

#endif  // COMMON_CORE_UTF8_PREFIX_H_
