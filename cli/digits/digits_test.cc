#include "cli/digits/digits.h"

#include <zlib.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/image_shard/image_shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// One image of a single level.
std::string Line(int level, int label) {
  std::string line;
  for (int i = 0; i < 64; ++i) absl::StrAppend(&line, level, ",");
  return absl::StrCat(line, label, "\n");
}

std::string TenLines() {
  std::string csv;
  for (int i = 0; i < 10; ++i) csv += Line(i, i);
  return csv;
}

TEST(DigitsTest, EveryFifthImageIsATestImage) {
  const auto digits = ParseDigits(TenLines());
  ASSERT_TRUE(digits.ok()) << digits.status();
  const std::string dir = ::testing::TempDir() + "/shards";
  const auto shards = WriteDigitShards(*digits, 32, dir);
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_EQ(shards->train_count, 8);
  const auto test = ImageShard::Open(dir + "/digits-test.shard");
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_THAT(test->labels(), ::testing::ElementsAre(4, 9));
  EXPECT_EQ(test->format().channels, 1u);
  EXPECT_EQ(test->format().width, 32u);
  EXPECT_EQ(test->format().classes, 10u);
}

TEST(DigitsTest, LevelsBecomeBytes) {
  const auto digits = ParseDigits(TenLines() + Line(16, 3));
  ASSERT_TRUE(digits.ok());
  EXPECT_THAT(Enlarged(digits->back(), 32), Each(255));
  EXPECT_THAT(Enlarged(digits->front(), 32), Each(0));
}

TEST(DigitsTest, SameSizeKeepsEveryPixel) {
  Digit digit;
  for (int i = 0; i < 64; ++i) digit.pixels.push_back(static_cast<uint8_t>(i % 17));
  const std::vector<uint8_t> same = Enlarged(digit, 8);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(same[i], (i % 17 * 255 + 8) / 16) << i;
}

TEST(DigitsTest, EnlargingIsLinearBetweenThePixels) {
  Digit digit;
  // Columns rise from left to right.
  for (int i = 0; i < 64; ++i) digit.pixels.push_back(static_cast<uint8_t>(i % 8 * 2));
  const std::vector<uint8_t> image = Enlarged(digit, 16);
  // Between the centres of columns 1 and 2 (levels 2 and 4), a quarter of the way.
  EXPECT_EQ(image[16 * 8 + 3], std::lround(2.5 * 255 / 16));
}

TEST(DigitsTest, ReadsGzip) {
  const std::string path = ::testing::TempDir() + "/digits.csv.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, TenLines().c_str());
  gzclose(file);
  const auto digits = ReadDigits(path);
  ASSERT_TRUE(digits.ok()) << digits.status();
  EXPECT_EQ(digits->size(), 10u);
}

TEST(DigitsTest, WrongLinesAreNamed) {
  EXPECT_THAT(std::string(ParseDigits(TenLines() + "1,2\n").status().message()),
              HasSubstr("line 11 has 2 columns"));
  EXPECT_THAT(std::string(ParseDigits(Line(17, 0)).status().message()),
              HasSubstr("line 1 has \"17\" in column 1; allowed is 0 to 16"));
  EXPECT_THAT(std::string(ParseDigits(Line(1, 10)).status().message()),
              HasSubstr("in column 65; allowed is 0 to 9"));
  EXPECT_FALSE(ParseDigits("").ok());
}

TEST(DigitsTest, MissingFileIsNotFound) {
  EXPECT_EQ(ReadDigits("/nonexistent.csv").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace paceline
