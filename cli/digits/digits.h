// The handwritten digits of the UCI repository, as image shards.
//
// The CSV file (plain or gzip) has one line per image: 64 pixels of an 8x8 image, from 0 to 16, row
// by row, then the label, from 0 to 9.
#ifndef CLI_DIGITS_DIGITS_H_
#define CLI_DIGITS_DIGITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

inline constexpr int kDigitSide = 8;
inline constexpr int kDigitLevels = 16;  // Highest value of a pixel.
inline constexpr int kDigitClasses = 10;

struct Digit {
  std::vector<uint8_t> pixels;  // kDigitSide^2 of them.
  uint32_t label = 0;
};

// Fails with NotFound, or InvalidArgument with the wrong line.
absl::StatusOr<std::vector<Digit>> ReadDigits(const std::string& path);
absl::StatusOr<std::vector<Digit>> ParseDigits(absl::string_view csv);

// A square image of `side` pixels, from 0 to 255, bilinear between the centres of the pixels.
std::vector<uint8_t> Enlarged(const Digit& digit, int side);

struct DigitShards {
  std::string train;
  std::string test;
  int train_count = 0;
  int test_count = 0;
};

// Writes digits-train.shard and digits-test.shard into `directory`, which is created if missing.
// Every fifth image is a test image.
absl::StatusOr<DigitShards> WriteDigitShards(const std::vector<Digit>& digits, int side,
                                             const std::string& directory);

}  // namespace paceline

#endif  // CLI_DIGITS_DIGITS_H_
