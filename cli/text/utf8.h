// Checks and decodes UTF-8.
#ifndef CLI_TEXT_UTF8_H_
#define CLI_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace paceline {

// Whether the byte belongs to a character but is not its first.
inline bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Length and code point of the well-formed UTF-8 sequence at the start of a text; length 0 if there
// is none.
struct Utf8Character {
  size_t length = 0;
  uint32_t point = 0;
};

// Requires: `text` is not empty.
inline Utf8Character FirstCharacter(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  uint32_t point = lead & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return {};
    point = point << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < kLeast[length] || point > 0x10ffff || surrogate) return {};
  return {length, point};
}

// Number of bytes at the start of the text that are valid UTF-8.
inline size_t Utf8Length(absl::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const size_t next = FirstCharacter(text.substr(length)).length;
    if (next == 0) break;
    length += next;
  }
  return length;
}

}  // namespace paceline

#endif  // CLI_TEXT_UTF8_H_
