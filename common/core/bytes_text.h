// Formats sizes for people.
#ifndef COMMON_CORE_BYTES_TEXT_H_
#define COMMON_CORE_BYTES_TEXT_H_

#include <cstdint>
#include <cstdio>
#include <string>

namespace paceline {

// "512 B", "1.5 KiB", "62.8 GiB".
inline std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto amount = static_cast<double>(bytes);
  int unit = 0;
  while (amount >= 1024 && unit < 6) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.*f %s", unit == 0 ? 0 : 1, amount, kUnits[unit]);
  return text;
}

}  // namespace paceline

#endif  // COMMON_CORE_BYTES_TEXT_H_
