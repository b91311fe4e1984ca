// The checksum of a checkpoint's bytes: 64-bit XXH3 (https://xxhash.com), which costs less than
// reading the bytes from memory. Its JSON form is "xxh3:" and 16 hexadecimal digits.
#ifndef COMMON_CHECKPOINT_CHECKSUM_H_
#define COMMON_CHECKPOINT_CHECKSUM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

uint64_t ChecksumOf(absl::string_view bytes);

// Computes a checksum piece by piece.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void Add(absl::string_view bytes);
  // Returns the checksum of all bytes so far and starts over.
  uint64_t Take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string ChecksumText(uint64_t checksum);
std::optional<uint64_t> ParseChecksum(absl::string_view text);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_CHECKSUM_H_
