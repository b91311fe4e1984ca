#include "cli/digits/digits.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/core/status_macros.h"
#include "common/image_shard/image_shard.h"

namespace paceline {
namespace {

constexpr int kColumns = kDigitSide * kDigitSide + 1;
constexpr size_t kMostBytes = 64u << 20;  // Far more than such a file ever has.
constexpr size_t kTestEvery = 5;

absl::Status WrongLine(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, " ", what));
}

absl::StatusOr<std::string> ReadGzip(const std::string& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  std::string text;
  char part[65536];
  int got = 0;
  while ((got = gzread(file.get(), part, sizeof(part))) > 0) {
    text.append(part, static_cast<size_t>(got));
    if (text.size() > kMostBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is too large to be the digits"));
    }
  }
  int error = Z_OK;
  const char* why = gzerror(file.get(), &error);
  if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is damaged: ", why));
  }
  return text;
}

absl::StatusOr<Digit> ParseLine(absl::string_view text, int line) {
  const std::vector<absl::string_view> columns = absl::StrSplit(text, ',');
  if (columns.size() != kColumns) {
    return WrongLine(line, absl::StrCat("has ", columns.size(), " columns; ", kColumns,
                                        " are needed: 64 pixels and the label"));
  }
  Digit digit;
  for (int i = 0; i < kColumns; ++i) {
    const bool label = i == kColumns - 1;
    const int most = label ? kDigitClasses - 1 : kDigitLevels;
    int value = 0;
    if (!absl::SimpleAtoi(columns[i], &value) || value < 0 || value > most) {
      return WrongLine(line, absl::StrCat("has \"", columns[i].substr(0, 20), "\" in column ",
                                          i + 1, "; allowed is 0 to ", most));
    }
    if (label) {
      digit.label = static_cast<uint32_t>(value);
    } else {
      digit.pixels.push_back(static_cast<uint8_t>(value));
    }
  }
  return digit;
}

// The two source pixels around a pixel of the enlarged image, and the second one's weight.
struct Neighbours {
  int first;
  int second;
  double weight;
};

Neighbours Around(int position, int side) {
  const double centre = (position + 0.5) * kDigitSide / side - 0.5;
  const double clamped = std::clamp(centre, 0.0, kDigitSide - 1.0);
  const int first = static_cast<int>(clamped);
  return {first, std::min(first + 1, kDigitSide - 1), clamped - first};
}

}  // namespace

absl::StatusOr<std::vector<Digit>> ReadDigits(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string csv, ReadGzip(path));
  absl::StatusOr<std::vector<Digit>> digits = ParseDigits(csv);
  if (digits.ok()) return digits;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", digits.status().message()));
}

absl::StatusOr<std::vector<Digit>> ParseDigits(absl::string_view csv) {
  std::vector<Digit> digits;
  int line = 0;
  for (absl::string_view text : absl::StrSplit(csv, '\n')) {
    ++line;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (text.empty()) continue;
    PACELINE_ASSIGN_OR_RETURN(Digit digit, ParseLine(text, line));
    digits.push_back(std::move(digit));
  }
  if (digits.size() < kTestEvery) {
    return absl::InvalidArgumentError(absl::StrCat("there are only ", digits.size(), " images"));
  }
  return digits;
}

std::vector<uint8_t> Enlarged(const Digit& digit, int side) {
  std::vector<uint8_t> image;
  image.reserve(static_cast<size_t>(side) * side);
  const auto pixel = [&](int y, int x) {
    return static_cast<double>(digit.pixels[y * kDigitSide + x]);
  };
  for (int y = 0; y < side; ++y) {
    const Neighbours row = Around(y, side);
    for (int x = 0; x < side; ++x) {
      const Neighbours column = Around(x, side);
      const auto blend = [&](int source) {
        return pixel(source, column.first) * (1 - column.weight) +
               pixel(source, column.second) * column.weight;
      };
      const double level = blend(row.first) * (1 - row.weight) + blend(row.second) * row.weight;
      image.push_back(static_cast<uint8_t>(std::lround(level * 255 / kDigitLevels)));
    }
  }
  return image;
}

absl::StatusOr<DigitShards> WriteDigitShards(const std::vector<Digit>& digits, int side,
                                             const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make ", directory, ": ", error.message()));
  }
  struct Part {
    std::vector<uint32_t> labels;
    std::vector<uint8_t> pixels;
  };
  Part train;
  Part test;
  for (size_t i = 0; i < digits.size(); ++i) {
    Part& part = i % kTestEvery == kTestEvery - 1 ? test : train;
    part.labels.push_back(digits[i].label);
    const std::vector<uint8_t> image = Enlarged(digits[i], side);
    part.pixels.insert(part.pixels.end(), image.begin(), image.end());
  }
  ImageFormat format;
  format.channels = 1;
  format.height = static_cast<uint32_t>(side);
  format.width = static_cast<uint32_t>(side);
  format.classes = kDigitClasses;
  DigitShards shards;
  shards.train = directory + "/digits-train.shard";
  shards.test = directory + "/digits-test.shard";
  shards.train_count = static_cast<int>(train.labels.size());
  shards.test_count = static_cast<int>(test.labels.size());
  PACELINE_RETURN_IF_ERROR(WriteImageShard(shards.train, format, train.labels, train.pixels));
  PACELINE_RETURN_IF_ERROR(WriteImageShard(shards.test, format, test.labels, test.pixels));
  return shards;
}

}  // namespace paceline
