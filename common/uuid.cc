#include "common/uuid.h"

#include <random>

#include "absl/strings/str_format.h"

namespace paceline {

uint64_t RandomBits() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

std::string NewUuid() {
  const uint64_t high = RandomBits();
  const uint64_t low = RandomBits();
  // RFC 4122: version 4 in the third group, variant 10 in the fourth.
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%012x", high >> 32, (high >> 16) & 0xffff,
                         high & 0xfff, 0x8000 | (low >> 48 & 0x3fff), low & 0xffffffffffff);
}

}  // namespace paceline
